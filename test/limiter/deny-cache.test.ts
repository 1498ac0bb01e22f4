import { describe, expect, test } from '@jest/globals'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { RateLimiter, type RateLimiterOptions } from '../../src/limiter/rate-limiter.js'
import type { Store } from '../../src/limiter/store.js'
import { ManualClock } from '../../src/testing.js'
import { runChild } from '../support/child.js'
import { START } from '../support/stories.js'
import { StubStore } from '../support/stub-store.js'

/** A memory store behind a promise, as a store elsewhere would be, that counts how often it is asked. */
class RemoteStore implements Store {
  asked = 0
  readonly memory: MemoryStore

  constructor(readonly clock: ManualClock) {
    this.memory = new MemoryStore({ clock })
  }

  consume: Store['consume'] = async (charges, cost) => {
    this.asked++
    return this.memory.consume(charges, cost)
  }
  peek: Store['peek'] = async (charges, cost) => {
    this.asked++
    return this.memory.peek(charges, cost)
  }
  refund: Store['refund'] = async (charges, cost) => this.memory.refund(charges, cost)
  reset: Store['reset'] = async charges => this.memory.reset(charges)
  giveBack = async (...args: Parameters<MemoryStore['giveBack']>) => this.memory.giveBack(...args)
  charge = async (...args: Parameters<MemoryStore['charge']>) => this.memory.charge(...args)
  block = async (...args: Parameters<MemoryStore['block']>) => this.memory.block(...args)
}

function setUp(options: Partial<RateLimiterOptions> = {}) {
  const clock = new ManualClock(START)
  const store = new RemoteStore(clock)
  const another = (more: Partial<RateLimiterOptions> = {}) =>
    new RateLimiter({ policy: '5/10s', store, ...options, ...more })
  return { clock, store, limiter: another(), another }
}

describe('a denial is remembered in process', () => {
  test('until the promised moment, without asking the store, and tells the remaining time', async () => {
    const { clock, store, limiter } = setUp({ policy: '5/1s' })
    await limiter.consume('k', 5)
    clock.advance(100)
    const denied = await limiter.consume('k')
    expect(denied).toMatchObject({ allowed: false, source: 'redis', retryAfterMs: 900, resetAfterMs: 900 })
    const { asked } = store
    clock.advance(899)
    const remembered = await limiter.consume('k')
    expect({ ...remembered }).toEqual({
      ...denied,
      source: 'deny-cache',
      retryAfterMs: 1,
      resetAfterMs: 1,
      verdicts: [{ ...denied.verdicts[0], retryAfterMs: 1, resetAfterMs: 1 }],
    })
    expect(store.asked).toBe(asked)
    clock.advance(1)
    expect(await limiter.consume('k')).toMatchObject({ allowed: true, source: 'redis' })
  })

  test.each(['20/1s token-bucket burst=2', '20/1s leaky-bucket burst=2', '1/50ms fixed-window'])(
    'and when it is over, the store is asked for requests that it grants, not for those that it refuses: %s',
    async policy => {
      const { clock, store, limiter } = setUp({ policy })
      for (let i = 0; i < 3; i++) await limiter.consume('k')
      const asked = store.asked
      let allowed = 0
      for (let ms = 0; ms < 1000; ms++) {
        clock.advance(1)
        const decision = await limiter.consume('k')
        if (decision.allowed) allowed++
        else {
          expect(decision.source).toBe('deny-cache')
          const [{ retryAfterMs, resetAfterMs, remaining }] = store.memory.peek(
            [{ key: 'k', limit: limiter.policy[0] }],
            1,
          )
          expect(decision).toMatchObject({ retryAfterMs, resetAfterMs, remaining })
        }
      }
      expect(allowed).toBe(20)
      expect(store.asked - asked).toBe(20)
    },
  )

  test('but not if the wait is no whole number of ms, and not after a peek', async () => {
    const { clock, limiter } = setUp({ policy: '7/1s token-bucket' })
    for (let i = 0; i < 8; i++) await limiter.consume('k')
    clock.advance(143)
    expect((await limiter.consume('k')).allowed).toBe(true)
    expect(await limiter.consume('k')).toMatchObject({ allowed: false, source: 'redis', retryAfterMs: 143 })
    const window = setUp({ policy: '1/50ms fixed-window' })
    for (let i = 0; i < 2; i++) await window.limiter.consume('k')
    window.clock.advance(50)
    expect((await window.limiter.peek('k')).allowed).toBe(true)
    expect(await window.limiter.consume('k')).toMatchObject({ allowed: true, source: 'redis' })
  })

  test('for its key only', async () => {
    const { limiter } = setUp()
    await limiter.consume('k', 5)
    await limiter.consume('k')
    expect(await limiter.consume('K')).toMatchObject({ allowed: true, source: 'redis' })
  })

  test('for costs that are at least as large', async () => {
    const { limiter } = setUp()
    await limiter.consume('k', 3)
    expect(await limiter.consume('k', 3)).toMatchObject({ allowed: false, source: 'redis' })
    expect(await limiter.consume('k', 4)).toMatchObject({ allowed: false, source: 'deny-cache' })
    expect(await limiter.consume('k', 2)).toMatchObject({ allowed: true, source: 'redis' })
  })

  test.each(['sliding-window', 'sliding-counter', 'fixed-window', 'token-bucket', 'leaky-bucket'])(
    'for larger costs with the time at which they fit, asking the store if that is unknown (%s)',
    async algorithm => {
      const { clock, limiter, another } = setUp({ policy: `10/10s ${algorithm}` })
      const asked = another({ denyCache: false })
      await limiter.consume('k', 5)
      clock.advance(3000)
      await limiter.consume('k', (await limiter.peek('k', 0)).remaining)
      clock.advance(3)
      expect(await limiter.consume('k', 1)).toMatchObject({ allowed: false, source: 'redis' })
      for (const cost of [10, 6, 2, 1, 6]) {
        const { allowed, retryAfterMs } = await limiter.consume('k', cost)
        expect(allowed).toBe(false)
        expect([cost, retryAfterMs]).toEqual([cost, (await asked.peek('k', cost)).retryAfterMs])
      }
      expect(await limiter.consume('k', 1)).toMatchObject({ source: 'deny-cache' })
    },
  )

  test('but the store is asked about a cost of 0', async () => {
    const { limiter } = setUp()
    await limiter.consume('k', 5)
    await limiter.consume('k')
    expect(await limiter.peek('k', 0)).toMatchObject({ allowed: true, source: 'redis' })
    expect(await limiter.consume('k', 0)).toMatchObject({ allowed: true, source: 'redis' })
  })

  test('also for a peek', async () => {
    const { store, limiter } = setUp()
    await limiter.consume('k', 5)
    await limiter.peek('k')
    const { asked } = store
    expect(await limiter.peek('k')).toMatchObject({ allowed: false, source: 'deny-cache' })
    expect(await limiter.consume('k')).toMatchObject({ allowed: false, source: 'deny-cache' })
    expect(store.asked).toBe(asked)
  })

  test('also if the cost never fits', async () => {
    const { clock, limiter } = setUp()
    await limiter.consume('k', 6)
    clock.advance(999)
    expect(await limiter.consume('k', 7)).toMatchObject({
      source: 'deny-cache',
      retryAfterMs: Number.POSITIVE_INFINITY,
    })
    expect(await limiter.consume('k', 5)).toMatchObject({ allowed: true })
  })

  test.each<[string, string, number]>([
    ['a window', '5/10s', 6],
    ['a bucket whose burst is smaller than its quota', '20/10s token-bucket burst=5', 6],
    ['a bucket whose burst is larger than its quota', '2/10s leaky-bucket burst=5', 6],
  ])('and a larger cost that never fits is told so (%s)', async (_, policy, cost) => {
    const { limiter } = setUp({ policy })
    await limiter.consume('k', 5)
    expect((await limiter.consume('k', 1)).retryAfterMs).toBeLessThan(Number.POSITIVE_INFINITY)
    const decision = await limiter.consume('k', cost)
    expect(decision).toMatchObject({ allowed: false, retryAfterMs: Number.POSITIVE_INFINITY })
  })

  test('with consistent verdicts: none is denied without a wait', async () => {
    const { clock, limiter } = setUp({ policy: '1/1s; 1/10s' })
    await limiter.consume('k')
    await limiter.consume('k')
    clock.advance(1000)
    const { verdicts } = await limiter.consume('k')
    for (const { allowed, retryAfterMs } of verdicts) expect(allowed).toBe(retryAfterMs === 0)
    clock.advance(4000)
    for (const { allowed, retryAfterMs } of (await limiter.consume('k')).verdicts)
      expect(allowed).toBe(retryAfterMs === 0)
  })

  test.each<[string, (limiter: RateLimiter) => Promise<void>]>([
    ['a refund', limiter => limiter.refund('k')],
    ['a reset', limiter => limiter.reset('k')],
  ])('until %s', async (_, change) => {
    const { limiter } = setUp()
    await limiter.consume('k', 5)
    await limiter.consume('k')
    await change(limiter)
    expect(await limiter.consume('k')).toMatchObject({ allowed: true, source: 'redis' })
  })

  test('until a decision that spent more than it cost is settled', async () => {
    const { limiter } = setUp()
    const decision = await limiter.consume('k', 5)
    await limiter.consume('k')
    await limiter.settle(decision, 3)
    expect(await limiter.consume('k', 2)).toMatchObject({ allowed: true, source: 'redis' })
  })

  test('until a block is lifted', async () => {
    const { limiter } = setUp()
    await limiter.block('k', '1h')
    expect(await limiter.consume('k')).toMatchObject({ allowed: false, blocked: true, source: 'redis' })
    expect(await limiter.consume('k')).toMatchObject({ allowed: false, blocked: true, source: 'deny-cache' })
    await limiter.unblock('k')
    expect(await limiter.consume('k')).toMatchObject({ allowed: true, source: 'redis' })
  })

  test('and forgotten for all limiters that share the counts, when one of them changes them', async () => {
    const { limiter, another } = setUp()
    const twin = another()
    await limiter.consume('k', 5)
    await limiter.consume('k')
    await twin.reset('k')
    expect(await limiter.consume('k')).toMatchObject({ allowed: true, source: 'redis' })
  })

  test('but not for limiters of another name or another policy', async () => {
    const { limiter, another } = setUp()
    await limiter.consume('k', 5)
    await limiter.consume('k')
    expect(await another({ name: 'other' }).consume('k')).toMatchObject({ allowed: true })
    expect(await another({ policy: '6/10s name=5-per-10s' }).consume('k')).toMatchObject({ allowed: true })
    expect(await another({ policy: '9/1s' }).consume('k')).toMatchObject({ allowed: true })
  })

  test('by the names of limits, if each has its own key', async () => {
    const { limiter } = setUp({ policy: '1/10s name=ip; 5/10s name=user' })
    await limiter.consume({ ip: 'a', user: 'x' })
    await limiter.consume({ ip: 'a', user: 'x' })
    expect(await limiter.consume({ ip: 'a', user: 'x' })).toMatchObject({ allowed: false, source: 'deny-cache' })
    expect(await limiter.consume({ ip: 'b', user: 'x' })).toMatchObject({ allowed: true, source: 'redis' })
    expect(await limiter.consume({ user: 'x' })).toMatchObject({ allowed: true, source: 'redis' })
    await limiter.refund({ ip: 'a' })
    expect(await limiter.consume({ ip: 'a', user: 'x' })).toMatchObject({ allowed: true, source: 'redis' })
  })

  test('and a text that looks like a record of keys is another key', async () => {
    const { limiter } = setUp({ policy: '1/10s name=ip' })
    await limiter.consume({ ip: 'a' })
    expect((await limiter.consume({ ip: 'a' })).allowed).toBe(false)
    expect(await limiter.consume('{"ip":"a"}')).toMatchObject({ allowed: true })
  })

  test('and forgotten, when the same key is changed under another spelling', async () => {
    const { limiter } = setUp({ policy: '1/10s name=ip' })
    await limiter.consume({ ip: 'a' })
    await limiter.consume({ ip: 'a' })
    await limiter.refund('a')
    expect(await limiter.consume({ ip: 'a' })).toMatchObject({ allowed: true })
  })

  test('not at all if the cache is turned off', async () => {
    for (const denyCache of [false, 0]) {
      const { limiter } = setUp({ denyCache })
      await limiter.consume('k', 5)
      await limiter.consume('k')
      expect(await limiter.consume('k')).toMatchObject({ allowed: false, source: 'redis' })
    }
  })

  test('for a bounded number of keys: the oldest is removed first', async () => {
    const { limiter } = setUp({ denyCache: 2, policy: '1/10s' })
    for (const key of ['a', 'b', 'c']) {
      await limiter.consume(key)
      await limiter.consume(key)
    }
    const sources = await Promise.all(['c', 'b', 'a'].map(async key => (await limiter.consume(key)).source))
    expect(sources).toEqual(['deny-cache', 'deny-cache', 'redis'])
  })

  test('no longer than promised although the clock runs back', async () => {
    const { clock, limiter } = setUp()
    await limiter.consume('k', 5)
    await limiter.consume('k')
    clock.advance(-5000)
    expect(await limiter.consume('k')).toMatchObject({ allowed: false, source: 'redis', retryAfterMs: 10_000 })
    clock.advance(10_000)
    expect(await limiter.consume('k')).toMatchObject({ allowed: true })
  })

  test('for a second at most, because changes in other processes are not heard', async () => {
    const { clock, limiter } = setUp()
    await limiter.consume('k', 5)
    await limiter.consume('k')
    clock.advance(999)
    expect(await limiter.consume('k')).toMatchObject({ source: 'deny-cache', retryAfterMs: 9001 })
    clock.advance(1)
    expect(await limiter.consume('k')).toMatchObject({ allowed: false, source: 'redis', retryAfterMs: 9000 })
  })

  test('unless the failure policy has denied', async () => {
    const { store, limiter } = setUp({ onStoreFailure: 'closed' })
    const { consume } = store
    store.consume = () => Promise.reject(new Error('down'))
    expect(await limiter.consume('k')).toMatchObject({ allowed: false, source: 'closed' })
    store.consume = consume
    expect(await limiter.consume('k')).toMatchObject({ allowed: true, source: 'redis' })
  })

  test('is answered although the store is down', async () => {
    const { store, limiter } = setUp({ onStoreFailure: 'open' })
    await limiter.consume('k', 5)
    await limiter.consume('k')
    store.consume = () => Promise.reject(new Error('down'))
    expect(await limiter.consume('k')).toMatchObject({ allowed: false, source: 'deny-cache', degraded: false })
  })
})

describe('a denial of a long key', () => {
  test('is remembered for that key and contains it', async () => {
    const { store, limiter } = setUp()
    const [key, other] = ['a', 'b'].map(text => text + 'x'.repeat(15_000))
    await limiter.consume(key, 5)
    await limiter.consume(key)
    const { asked } = store
    expect(await limiter.consume(key)).toMatchObject({ key, allowed: false, source: 'deny-cache' })
    expect(store.asked).toBe(asked)
    expect((await limiter.consume(other)).allowed).toBe(true)
    await limiter.reset(key)
    expect((await limiter.consume(key)).allowed).toBe(true)
  })

  test('takes no more memory than one of a short key', async () => {
    const { stdout, stderr, code } = await runChild(
      `import { MemoryStore, RateLimiter } from './src/index.ts'
       const memory = new MemoryStore()
       const store = {
         consume: async (...args) => memory.consume(...args),
         peek: async (...args) => memory.peek(...args),
         refund: async () => {},
         reset: async () => {},
       }
       const limiter = new RateLimiter({ policy: '1/1h', store })
       const held = () => { gc(); gc(); return process.memoryUsage().heapUsed }
       const deny = async (from, to) => {
         for (let i = from; i < to; i++) {
           const key = Buffer.from(\`\${i} \${'x'.repeat(15_000)}\`).toString()
           await limiter.consume(key)
           const { allowed } = await limiter.consume(key)
           if (allowed) throw new Error('not denied')
         }
       }
       await deny(0, 100)
       const before = held()
       await deny(100, 3100)
       console.log(Math.round((held() - before) / 3000))`,
      { flags: ['--expose-gc'], timeoutMs: 60_000 },
    )
    expect([stderr, code]).toEqual(['', 0])
    expect(Number(stdout)).toBeLessThan(2000)
  })
})

describe('a clock of the store that fails', () => {
  test.each([
    ['after a denial', 0],
    ['before a request that was denied', 1],
  ])('%s: the store decides, and nothing is remembered', async (_, denials) => {
    let fails = false
    const store = Object.assign(new StubStore(), {
      clock: {
        now() {
          if (fails) throw new Error('no time')
          return START
        },
      },
    })
    store.deny(500)
    const { answer } = store
    // When it is asked the clock works; else the store could not be asked.
    store.answer = async (charges, cost) => {
      const verdicts = await answer(charges, cost)
      fails = denials === 0
      return verdicts
    }
    const limiter = new RateLimiter({ policy: '5/10s', store, observer: {}, onStoreFailure: 'closed' })
    for (let i = 0; i < denials; i++) await limiter.consume('k')
    fails = denials > 0
    const { allowed, source } = await limiter.consume('k')
    expect({ allowed, source }).toEqual({ allowed: false, source: denials === 0 ? 'redis' : 'closed' })
  })
})
