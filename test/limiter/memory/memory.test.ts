import { afterEach, describe, expect, jest, test } from '@jest/globals'
import { ALGORITHM_NAMES, type AlgorithmName, parseLimit } from '../../../src/limiter/core/limit.js'
import { hashOf } from '../../../src/limiter/core/short-key.js'
import { MemoryStore, type MemoryStoreOptions } from '../../../src/limiter/memory/memory-store.js'
import { ManualClock } from '../../../src/testing.js'
import { runChild } from '../../support/child.js'
import { randomFrom } from '../../support/random.js'
import { START } from '../../support/stories.js'
import { bytesPerKey } from './memory-footprint.js'

const limitOf = (quota: number, window: number | string, algorithm: AlgorithmName = 'fixed-window', name?: string) =>
  parseLimit({ quota, window, algorithm, name })

describe('MemoryStore', () => {
  const stores: MemoryStore[] = []
  const make = (options?: MemoryStoreOptions) => {
    const store = new MemoryStore(options)
    stores.push(store)
    return store
  }
  afterEach(() => {
    for (const store of stores.splice(0)) store.close()
    jest.useRealTimers()
  })

  test('answers synchronously, not by a promise', () => {
    const store = make()
    const charges = [{ key: 'k', limit: limitOf(1, '1m') }]
    expect(store.consume(charges, 1)[0].allowed).toBe(true)
    expect(store.peek(charges, 1)[0].allowed).toBe(false)
    expect(store.refund(charges, 1)).toBeUndefined()
    expect(store.reset(charges)).toBeUndefined()
  })

  test('uses the time of the system, also a faked one, unless it is given a clock', () => {
    jest.useFakeTimers({ now: START })
    const store = make()
    const charges = [{ key: 'k', limit: limitOf(1, '1m') }]
    store.consume(charges, 1)
    jest.setSystemTime(START + 59_000)
    expect(store.peek(charges, 1)[0].retryAfterMs).toBe(1000)
    jest.setSystemTime(START + 60_000)
    expect(store.peek(charges, 1)[0].allowed).toBe(true)
  })

  describe('size', () => {
    test('counts each key once under each limit', () => {
      const store = make()
      const limits = [limitOf(5, '1m'), limitOf(5, '1h')]
      const charges = (key: string) => limits.map(limit => ({ key, limit }))
      store.consume(charges('a'), 1)
      store.consume(charges('a'), 1)
      store.consume(charges('b').slice(1), 1)
      expect(store.size).toBe(3)
      store.reset(charges('a'))
      expect(store.size).toBe(1)
      store.reset(charges('a'))
      expect(store.size).toBe(1)
    })

    test('does not grow by peeks, refusals, refunds and costs of 0', () => {
      const store = make()
      for (const algorithm of ALGORITHM_NAMES) {
        const charges = [{ key: 'k', limit: limitOf(5, '1m', algorithm) }]
        store.peek(charges, 1)
        store.consume(charges, 0)
        store.consume(charges, 6)
        store.refund(charges, 1)
        store.reset(charges)
      }
      expect(store.size).toBe(0)
    })

    test('is 0 after close, and the store starts empty if it is used again', () => {
      const store = make()
      const charges = [{ key: 'k', limit: limitOf(1, '1m') }]
      store.consume(charges, 1)
      store.close()
      expect(store.size).toBe(0)
      expect(store.consume(charges, 1)[0].allowed).toBe(true)
      expect(store.consume(charges, 1)[0].allowed).toBe(false)
      expect(store.size).toBe(1)
      store.close()
      store.close()
      expect(store.size).toBe(0)
    })
  })

  describe('with maxKeys', () => {
    test('never holds more, whatever the traffic', () => {
      const random = randomFrom('maxKeys')
      const clock = new ManualClock(START)
      const store = make({ clock, maxKeys: 50 })
      const limits = ALGORITHM_NAMES.map(algorithm => limitOf(3, 1000, algorithm))
      let most = 0
      for (let i = 0; i < 5000; i++) {
        clock.advance(random.integer(0, 20))
        const key = `${random.integer(0, 200)}`
        const some = limits.filter(() => random.integer(0, 2) === 0)
        if (some.length > 0)
          store.consume(
            some.map(limit => ({ key, limit })),
            random.integer(0, 3),
          )
        most = Math.max(most, store.size)
      }
      expect(most).toBe(50)
    })

    test.each(ALGORITHM_NAMES)('never evicts a key that is denied now (%s)', algorithm => {
      const clock = new ManualClock(START)
      const store = make({ clock, maxKeys: 100 })
      const limit = limitOf(2, '1h', algorithm)
      const ask = (key: string, cost: number) => store.consume([{ key, limit }], cost)[0]
      for (let i = 0; i < 50; i++) ask(`denied ${i}`, 2)
      for (let i = 0; i < 5000; i++) {
        clock.advance(1)
        ask(`passer-by ${i}`, 1)
      }
      expect(store.size).toBe(100)
      for (let i = 0; i < 50; i++) expect(ask(`denied ${i}`, 1).allowed).toBe(false)
    })

    test('evicts the key whose denial ends first, if all its keys are denied', () => {
      const clock = new ManualClock(START)
      const store = make({ clock, maxKeys: 30 })
      const limit = limitOf(1, '1h')
      const ask = (key: string) => store.consume([{ key, limit }], 1)[0].allowed
      const isDenied = (key: string) => !store.peek([{ key, limit }], 1)[0].allowed
      for (let i = 0; i < 30; i++) {
        ask(`denied ${(i * 7) % 30}`)
        clock.advance(1)
      }
      for (let i = 0; i < 10; i++) {
        expect([ask(`new ${i}`), ask(`new ${i}`)]).toEqual([true, false])
        clock.advance(1)
        const left = Array.from({ length: 30 }, (_, j) => j).filter(j => isDenied(`denied ${(j * 7) % 30}`))
        expect(left).toEqual(Array.from({ length: 29 - i }, (_, j) => j + i + 1))
        expect(store.size).toBe(30)
      }
    })

    test('evicts a key that is not denied, under any limit, before a denied one', () => {
      const clock = new ManualClock(START)
      const store = make({ clock, maxKeys: 40 })
      const [strict, lax] = [limitOf(1, '1h', 'fixed-window', 'strict'), limitOf(9, '1d', 'fixed-window', 'lax')]
      for (let i = 0; i < 36; i++) store.consume([{ key: `denied ${i}`, limit: strict }], 1)
      for (let i = 0; i < 4; i++) store.consume([{ key: `free ${i}`, limit: lax }], 1)
      for (let i = 0; i < 4; i++) store.consume([{ key: `new ${i}`, limit: strict }], 1)
      const denied = Array.from({ length: 36 }, (_, i) => store.peek([{ key: `denied ${i}`, limit: strict }], 1)[0])
      expect(denied.every(({ allowed }) => !allowed)).toBe(true)
      expect(store.peek([{ key: 'free 0', limit: lax }], 0)[0].remaining).toBe(9)
    })

    test('counts blocks, keeps those that end last, and removes ended ones', () => {
      const clock = new ManualClock(START)
      const store = make({ clock, maxKeys: 20 })
      const limit = limitOf(5, '1m')
      const isBlocked = (key: string) => store.peek([{ key, limit }], 1)[0].blocked === true
      for (let i = 0; i < 1000; i++) store.block([{ key: `k ${i}`, limit }], 3_600_000 + i)
      expect(store.size).toBe(20)
      const blocked = Array.from({ length: 1000 }, (_, i) => i).filter(i => isBlocked(`k ${i}`))
      expect(blocked).toEqual(Array.from({ length: 20 }, (_, i) => 980 + i))
      // A key that is not denied goes before any block.
      for (let i = 0; i < 100; i++) store.consume([{ key: `passer-by ${i}`, limit }], 1)
      expect([store.size, isBlocked('k 980'), isBlocked('k 981')]).toEqual([20, false, true])
      store.block([{ key: 'k 981', limit }], 7_200_000)
      store.block([{ key: 'k 982', limit }], 0)
      expect(store.size).toBe(19)
      clock.advance(3_601_000)
      store.block([{ key: 'another', limit }], 1000)
      for (let i = 0; i < 20; i++) store.block([{ key: `next ${i}`, limit }], 1000)
      expect([store.size <= 20, isBlocked('k 981')]).toEqual([true, true])
    })

    test('that are blocked are swept after their blocks end, even without traffic', () => {
      jest.useFakeTimers({ now: START })
      const store = make()
      for (let i = 0; i < 100; i++) store.block([{ key: `${i}`, limit: limitOf(5, '1m') }], 5000)
      expect(store.size).toBe(100)
      jest.advanceTimersByTime(10_000)
      expect([store.size, jest.getTimerCount()]).toEqual([0, 0])
    })

    test('evicts the key that is the first to be as if never used', () => {
      const clock = new ManualClock(START)
      const store = make({ clock, maxKeys: 8 })
      const limit = limitOf(5, '1h')
      const left = (key: string) => store.peek([{ key, limit }], 0)[0].remaining
      for (const key of ['c', 'a', 'd', 'b', 'e', 'f', 'g', 'h']) {
        store.consume([{ key, limit }], 1)
        clock.advance(1000)
      }
      store.consume([{ key: 'new', limit }], 1)
      expect(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'new'].map(left)).toEqual([4, 4, 5, 4, 4, 4, 4, 4, 4])
    })

    test('makes room for one key of a decision without forgetting another of it', () => {
      const clock = new ManualClock(START)
      const store = make({ clock, maxKeys: 3 })
      const [first, second] = [limitOf(9, '1m', 'fixed-window', 'first'), limitOf(9, '1m', 'fixed-window', 'second')]
      store.consume([{ key: 'a', limit: second }], 4)
      clock.advance(1)
      store.consume([{ key: 'b', limit: second }], 1)
      store.consume([{ key: 'c', limit: second }], 1)
      const verdicts = store.consume(
        [first, second].map(limit => ({ key: 'a', limit })),
        1,
      )
      expect(verdicts.map(({ remaining }) => remaining)).toEqual([8, 4])
      expect(store.peek([{ key: 'a', limit: second }], 0)[0].remaining).toBe(4)
      expect(store.size).toBe(3)
    })

    test('of one still counts', () => {
      const store = make({ maxKeys: 1 })
      const limit = limitOf(2, '1h')
      expect([1, 2, 3].map(() => store.consume([{ key: 'k', limit }], 1)[0].allowed)).toEqual([true, true, false])
    })
  })

  describe('a long key', () => {
    const long = (text: string) => `${text} ${'x'.repeat(15_000)}`

    test('is counted as itself by every method', () => {
      const store = make({ clock: new ManualClock(START) })
      const limit = limitOf(3, '1m')
      const charge = (text: string) => [{ key: long(text), limit }]
      const left = (text: string) => store.peek(charge(text), 0)[0].remaining
      expect(store.consume(charge('a'), 2)[0].remaining).toBe(1)
      expect(
        store.consume([...charge('a'), { key: long('b'), limit: limitOf(9, '1m', 'fixed-window') }], 1)[0].remaining,
      ).toBe(0)
      expect([left('a'), left('b')]).toEqual([0, 3])
      store.refund(charge('a'), 1)
      store.charge(charge('b'), 1)
      expect([left('a'), left('b')]).toEqual([1, 2])
      store.block(charge('b'), 60_000)
      expect(store.consume(charge('b'), 1)[0].blocked).toBe(true)
      store.block(charge('b'), 0)
      store.reset(charge('a'))
      expect([left('a'), store.size]).toEqual([3, 2])
    })

    test('is never confused with another key, not even with one that is written as its hash', () => {
      const store = make({ clock: new ManualClock(START) })
      const limit = limitOf(1, '1m')
      const keys = [long('a'), hashOf(long('a')), hashOf(hashOf(long('a'))), '#', '']
      for (const key of keys)
        expect([key.slice(0, 50), store.consume([{ key, limit }], 1)[0].allowed]).toEqual([key.slice(0, 50), true])
      expect(store.size).toBe(keys.length)
    })

    test('costs no more memory than a short one, and neither does a key cut from a long text', async () => {
      const { stdout, code } = await runChild(
        `import { MemoryStore } from './src/limiter/memory/memory-store.ts'
         import { parseLimit } from './src/limiter/core/limit.ts'
         const limit = parseLimit({ quota: 5, window: '1h', algorithm: 'fixed-window' })
         const held = () => { gc(); gc(); return process.memoryUsage().heapUsed }
         const bytes = keyOf => {
           const store = new MemoryStore()
           const before = held()
           for (let i = 0; i < 5000; i++) {
             store.consume([{ key: keyOf(i), limit }], 1)
             store.block([{ key: keyOf(i), limit }], 3_600_000)
           }
           const after = held()
           if (store.size !== 10_000) throw new Error('not all are kept')
           return (after - before) / 5000
         }
         const field = i => Buffer.from(\`198.51.100.\${i % 200}, \${'9'.repeat(15_000)}\${i}, 203.0.113.\${100 + (i % 100)}:\${10_000 + i}\`).toString()
         bytes(i => 'short ' + i)
         console.log(JSON.stringify([bytes(i => field(i)), bytes(i => field(i).slice(-19))]))`,
        { flags: ['--expose-gc'], timeoutMs: 60_000 },
      )
      expect(code).toBe(0)
      // 15 kB each, were the texts kept.
      for (const bytes of JSON.parse(stdout)) expect(bytes).toBeLessThan(1000)
    })
  })

  describe('sweeps', () => {
    test.each(ALGORITHM_NAMES)('expired keys, a few at a time as others come (%s)', algorithm => {
      const clock = new ManualClock(START)
      const store = make({ clock })
      const limit = limitOf(5, '1m', algorithm)
      for (let i = 0; i < 1000; i++) store.consume([{ key: `old ${i}`, limit }], 1)
      clock.advance(200_000)
      for (let i = 0; i < 1100; i++) store.consume([{ key: `new ${i}`, limit }], 1)
      expect(store.size).toBe(1100)
    })

    test('expired keys without any traffic, and then rests', () => {
      jest.useFakeTimers({ now: START })
      const store = make()
      const limits = ALGORITHM_NAMES.map(algorithm => limitOf(5, '1m', algorithm))
      for (let i = 0; i < 100; i++)
        store.consume(
          limits.map(limit => ({ key: `${i}`, limit })),
          5,
        )
      jest.advanceTimersByTime(30_000)
      expect(store.size).toBe(500)
      jest.advanceTimersByTime(150_000)
      expect(store.size).toBe(0)
      expect(jest.getTimerCount()).toBe(0)
      const [verdict] = store.consume([{ key: '1', limit: limits[0] }], 5)
      expect(verdict).toMatchObject({ allowed: true, remaining: 0 })
      expect(store.consume([{ key: '1', limit: limits[0] }], 1)[0].allowed).toBe(false)
      expect(jest.getTimerCount()).toBe(1)
    })

    test('no key that could still matter after the clock steps back by less than a second', () => {
      const clock = new ManualClock(START)
      const store = make({ clock })
      for (const algorithm of ALGORITHM_NAMES) {
        clock.set(START)
        const limit = limitOf(1, 1000, algorithm)
        store.consume([{ key: 'k', limit }], 1)
        clock.advance(algorithm === 'sliding-counter' ? 2000 : 1000)
        for (let i = 0; i < 100; i++) store.consume([{ key: `other ${i}`, limit }], 1)
        clock.advance(-900)
        expect([algorithm, store.peek([{ key: 'k', limit }], 1)[0].allowed]).toEqual([algorithm, false])
      }
    })

    test('no refund that settlements must know, after the key itself counts nothing', () => {
      jest.useFakeTimers({ now: START })
      const store = make()
      const limit = limitOf(2, '1h', 'sliding-counter')
      const charges = [{ key: 'k', limit }]
      store.consume(charges, 2)
      const { remaining, resetAfterMs } = store.peek(charges, 0)[0]
      const receipt = { ...charges[0], chargedAt: START, cost: 2, remaining, resetAfterMs }
      store.refund(charges, 2)
      jest.advanceTimersByTime(5000)
      expect(store.size).toBe(0)
      // These are units of another decision.
      store.consume(charges, 2)
      store.giveBack([receipt], 2)
      expect(store.peek(charges, 0)[0].remaining).toBe(0)
    })

    test('with a timer that ends with close', () => {
      jest.useFakeTimers({ now: START })
      const store = make()
      store.consume([{ key: 'k', limit: limitOf(1, '1m') }], 1)
      expect(jest.getTimerCount()).toBe(1)
      store.close()
      expect(jest.getTimerCount()).toBe(0)
    })

    test('with a timer that keeps no process alive', async () => {
      const { code, signal } = await runChild(
        `import { MemoryStore } from './src/limiter/memory/memory-store.ts'
         import { parseLimit } from './src/limiter/core/limit.ts'
         new MemoryStore().consume([{ key: 'k', limit: parseLimit({ quota: 1, window: '1d' }) }], 1)`,
        { timeoutMs: 10_000 },
      )
      expect([code, signal]).toEqual([0, null])
    })

    describe('only briefly at a time, when 200 000 keys expire at once:', () => {
      const full = () => {
        jest.useFakeTimers({ now: START, doNotFake: ['performance'] })
        const store = make()
        const limit = limitOf(5, '1m')
        for (let i = 0; i < 200_000; i++) store.consume([{ key: `old ${i}`, limit }], 1)
        jest.setSystemTime(START + 100_000)
        return { store, limit }
      }

      test('a decision removes two at most', () => {
        const { store, limit } = full()
        const removed = Array.from({ length: 2000 }, (_, i) => {
          const before = store.size
          store.consume([{ key: `new ${i}`, limit }], 1)
          return before + 1 - store.size
        })
        expect([Math.min(...removed), Math.max(...removed)]).toEqual([2, 2])
      })

      test('the timer removes as many as it can in a millisecond', () => {
        const { store } = full()
        // A look at the clock takes a tenth of a millisecond here: ten fit, with eight keys between two.
        const { now } = performance
        let looks = 0
        performance.now = () => looks++ / 10
        try {
          const removed = Array.from({ length: 10 }, () => {
            const before = store.size
            jest.advanceTimersByTime(1000)
            return before - store.size
          })
          expect(Math.min(...removed)).toBeGreaterThanOrEqual(8 * 8)
          expect(Math.max(...removed)).toBeLessThanOrEqual(8 * 12)
        } finally {
          performance.now = now
        }
      })
    })
  })

  test('does not slow down when the default name of a limiter and no name alternate', () => {
    const store = make()
    const limit = limitOf(5, '1m')
    const charges = [
      [{ key: 'k', limit }],
      [{ key: 'k', limit, limiter: 'default' }],
      [{ key: 'k', limit, limiter: 'x' }],
    ]
    const before = performance.now()
    for (let i = 0; i < 20_000; i++) store.peek(charges[i % 3], 1)
    expect(performance.now() - before).toBeLessThan(1000)
  })

  test('accepts limits that are parsed anew for every request', () => {
    const store = make()
    const ask = () => store.consume([{ key: 'k', limit: limitOf(5000, '1m') }], 1)[0].remaining
    for (let i = 1; i <= 5000; i++) expect(ask()).toBe(5000 - i)
    expect(store.size).toBe(1)
  })

  // A million keys: verification/faults/memory-bounds.test.ts. Tables double, so that an eighth of it fills them as
  // far.
  test('takes at most 110 bytes a key at an eighth of a million keys, under algorithms with constant state', async () => {
    const figures = await bytesPerKey(125_000)
    expect(figures).toHaveLength(3)
    for (const [, bytes] of figures) expect(bytes).toBeLessThanOrEqual(110)
  }, 60_000)
})
