import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { StoreError } from '../../src/limiter/core/errors.js'
import { parsePolicy } from '../../src/limiter/core/limit.js'
import { countsOf } from '../../src/limiter/foreign-store.js'
import { StoreGuard } from '../../src/limiter/guarded-policy.js'
import { RateLimiter, type RateLimiterOptions } from '../../src/limiter/rate-limiter.js'
import type { Charge } from '../../src/limiter/store.js'
import { StubStore } from '../support/stub-store.js'
import { freshVerdict } from '../support/verdicts.js'

beforeEach(() => {
  jest.useFakeTimers()
})
afterEach(() => {
  jest.useRealTimers()
})

// A store that takes so long to answer.
const later = <T>(ms: number, value: T) => new Promise<T>(resolve => setTimeout(() => resolve(value), ms))

function shout(message: string): never {
  throw new Error(message)
}

/** A store of two servers, "a" and "b", that keep the keys of this first letter; those in `hung` never answer. */
class TwoServers extends StubStore {
  readonly hung = new Set<string>()

  serverOf({ key }: Charge): string {
    return key[0]
  }

  override consume(charges: readonly Charge[], cost: number) {
    const answer = super.consume(charges, cost)
    return charges.some(charge => this.hung.has(this.serverOf(charge))) ? new Promise<never>(() => {}) : answer
  }

  override refund(charges: readonly Charge[], cost: number) {
    const answer = super.refund(charges, cost)
    return charges.some(charge => this.hung.has(this.serverOf(charge))) ? new Promise<never>(() => {}) : answer
  }
}

function over(store: StubStore, options: Partial<RateLimiterOptions> = {}) {
  return new RateLimiter({ policy: '1000/10s', store, onStoreFailure: 'open', denyCache: false, ...options })
}

/** Asks for keys at the same time until their deadline is over; how they were decided. */
async function ask(limiter: RateLimiter, ...keys: string[]): Promise<string[]> {
  const decisions = keys.map(key => limiter.consume(key))
  await jest.advanceTimersByTimeAsync(50)
  return (await Promise.all(decisions)).map(({ source }) => source)
}

describe('each server of a store has a breaker of its own', () => {
  test('one of three that hangs is not asked after 20 decisions, although most decisions succeed', async () => {
    const store = new TwoServers()
    const limiter = over(store)
    store.hung.add('a')
    for (let i = 0; i < 20; i++) expect(await ask(limiter, 'a', 'b', 'c')).toEqual(['open', 'redis', 'redis'])
    store.calls.length = 0
    expect(await ask(limiter, 'b', 'c')).toEqual(['redis', 'redis'])
    // Within the first probe's 200 ms, without waiting for the deadline.
    expect((await limiter.consume('a')).source).toBe('open')
    expect(store.calls).toEqual(['consume b@1000-per-10s 1', 'consume c@1000-per-10s 1'])
  })

  test('a decision of keys on two servers is refused while one of them is not asked', async () => {
    const store = new TwoServers()
    const limiter = over(store, { policy: '1000/10s name=x; 1000/10s name=y' })
    store.hung.add('b')
    const both = { x: 'a', y: 'b' }
    for (let i = 0; i < 20; i++) {
      const decision = limiter.consume({ x: 'b' })
      await jest.advanceTimersByTimeAsync(50)
      expect((await decision).source).toBe('open')
    }
    store.calls.length = 0
    expect((await limiter.consume(both)).source).toBe('open')
    expect(store.calls).toEqual([])
    expect((await limiter.consume({ x: 'a' })).source).toBe('redis')
  })

  test.each<[string, () => Promise<never>]>([
    ['hangs', () => new Promise<never>(() => {})],
    ['refuses', async () => Promise.reject(new Error('down'))],
  ])('decisions of keys on two servers take no probes of the one that is back while the other %s', async (_, fail) => {
    const down = new Set(['a', 'b'])
    const store = new TwoServers()
    const { answer } = store
    store.answer = (charges, cost) => (charges.some(({ key }) => down.has(key[0])) ? fail() : answer(charges, cost))
    const limiter = over(store, { policy: '1000/10s name=x; 1000/10s name=y' })
    for (let i = 0; i < 20; i++) await ask(limiter, 'a', 'b')
    down.delete('a')
    const found: string[] = []
    for (let ms = 0; ms < 400; ms += 10) {
      for (let i = 0; i < 5; i++) void limiter.consume({ x: 'a', y: 'b' })
      limiter.consume({ x: 'a' }).then(({ source }) => found.push(source))
      await jest.advanceTimersByTimeAsync(10)
    }
    expect(found.at(-1)).toBe('redis')
    // Both are back: without a decision of one server alone, those of two find it out.
    down.delete('b')
    await jest.advanceTimersByTimeAsync(6000)
    expect((await limiter.consume({ x: 'a', y: 'b' })).source).toBe('redis')
  })

  test('a change of keys on two servers fails for the one that hangs, and is made on the other', async () => {
    const store = new TwoServers()
    const limiter = over(store, { policy: '1000/10s name=x; 1000/10s name=y' })
    store.hung.add('b')
    for (let i = 0; i < 40; i++) {
      const failed = limiter.refund({ x: 'a', y: 'b' }).catch(error => error)
      await jest.advanceTimersByTimeAsync(50)
      expect(await failed).toBeInstanceOf(StoreError)
    }
    // Of the last second or so, one probe at most.
    expect(store.calls.filter(call => call.startsWith('refund a'))).toHaveLength(40)
    expect(store.calls.filter(call => call.startsWith('refund b')).length).toBeLessThan(30)
    expect((await limiter.consume({ x: 'a' })).source).toBe('redis')
  })
})

describe('each deadline has a breaker of its own', () => {
  test('a limiter of 10 ms does not degrade one of 500 ms over the same store', async () => {
    const store = new StubStore()
    store.answer = charges =>
      later(
        300,
        charges.map(({ limit }) => freshVerdict(limit)),
      )
    const [hasty, patient] = [over(store, { deadline: 10 }), over(store, { deadline: 500 })]
    for (let i = 0; i < 5; i++) expect(await ask(hasty, 'a', 'b', 'c', 'd', 'e')).toEqual(Array(5).fill('open'))
    const decisions = [patient.consume('a'), patient.consume('b')]
    await jest.advanceTimersByTimeAsync(300)
    expect((await Promise.all(decisions)).map(({ source }) => source)).toEqual(['redis', 'redis'])
  })
})

describe('changes are bounded like decisions', () => {
  test('a thenable that throws is a failure of the store', async () => {
    const store = new StubStore()
    store.act = () => Object.fromEntries([['then', () => shout('no')]]) as never
    await expect(over(store).reset('k')).rejects.toThrow(StoreError)
  })

  test.each(['refund', 'reset', 'block', 'charge'] as const)(
    '%s is not asked of a store that has failed 20 times, but for a probe',
    async verb => {
      const store = new StubStore()
      store.act = () => new Promise<never>(() => {})
      const limiter = over(store)
      const change = () => (verb === 'block' ? limiter.block('k', '1m') : limiter[verb]('k'))
      for (let i = 0; i < 20; i++) {
        const failed = change().catch(error => error)
        await jest.advanceTimersByTimeAsync(50)
        expect(await failed).toBeInstanceOf(StoreError)
      }
      expect(store.calls).toHaveLength(20)
      for (let i = 0; i < 1000; i++) await expect(change()).rejects.toThrow(StoreError)
      expect(store.calls.length).toBeLessThanOrEqual(21)
      // A decision is not asked either, and one that succeeds lets changes through again.
      expect((await limiter.consume('k')).source).toBe('open')
      store.act = async () => {}
      await jest.advanceTimersByTimeAsync(10_000)
      expect((await limiter.consume('k')).source).toBe('redis')
      await change()
    },
  )

  test('a missing method of a store is not a failure of the store', async () => {
    const store = Object.assign(new StubStore(), { block: undefined, charge: undefined })
    const limiter = over(store)
    for (let i = 0; i < 30; i++) {
      await expect(limiter.block('k', '1m')).rejects.toThrow('has no block()')
      await expect(limiter.charge('k')).rejects.toThrow('has no charge()')
    }
    expect((await limiter.consume('k')).source).toBe('redis')
  })
})

describe('limiters over one store', () => {
  const failing = () => {
    const store = new StubStore()
    store.answer = () => Promise.reject(new Error('down'))
    return store
  }
  const granted = async (limiters: readonly RateLimiter[]) => {
    let allowed = 0
    for (let i = 0; i < 20; i++) for (const limiter of limiters) if ((await limiter.consume('k')).allowed) allowed++
    return allowed
  }

  test('of the same name and limit share one quota in an outage', async () => {
    const store = failing()
    const limiters = Array.from({ length: 5 }, () => over(store, { policy: '10/1h', onStoreFailure: 'local' }))
    expect(await granted(limiters)).toBe(10)
    // That one of them is closed changes nothing for the others.
    await limiters[0].close()
    expect(await granted(limiters.slice(1))).toBe(0)
  })

  test('of different names or limits have separate quotas', async () => {
    const store = failing()
    const limiter = (name: string, policy: string) => over(store, { name, policy, onStoreFailure: 'local' })
    expect(await granted([limiter('x', '10/1h'), limiter('y', '10/1h'), limiter('x', '7/2h')])).toBe(27)
  })
})

describe('successes count, also of a store that answers at once', () => {
  test('one failure in a hundred calls opens no breaker', async () => {
    const opened: Error[] = []
    const store = new StubStore()
    let calls = 0
    store.answer = charges => {
      if (++calls % 100 === 0) throw new Error('one of a hundred')
      return charges.map(({ limit }) => freshVerdict(limit))
    }
    const limiter = over(store, { observer: { breakerOpened: error => opened.push(error) } })
    for (let i = 0; i < 3000; i++) await limiter.consume('k')
    expect(calls).toBe(3000)
    expect(opened).toEqual([])
  })

  test('nor does one failed change in ten', async () => {
    const store = new StubStore()
    let calls = 0
    store.act = () => {
      if (++calls % 10 === 0) throw new Error('one of ten')
    }
    const limiter = over(store)
    for (let i = 0; i < 500; i++) await limiter.refund('k').catch(() => {})
    expect(calls).toBe(500)
  })

  test('nor do few failed messages of a line among many that were answered', async () => {
    const store = new StubStore()
    const guarded = new StoreGuard(countsOf(store), 50)
    const charge: Charge = { key: 'k', limit: parsePolicy('5/1m')[0] }
    for (let i = 0; i < 300; i++) {
      if (i % 10 === 0) guarded.lineFailed(charge, new Error('one of ten'))
      else guarded.lineAnswered(charge, performance.now())
    }
    expect(guarded.mayAsk(charge)).toBe(true)
  })
})

test('a store that fails to name its servers is asked as if it had one', async () => {
  const store = Object.assign(new StubStore(), {
    serverOf() {
      throw new Error('which?')
    },
  })
  const limiter = over(store)
  expect((await limiter.consume('a')).source).toBe('redis')
  await limiter.reset('a')
  expect(store.calls).toEqual(['consume a@1000-per-10s 1', 'reset a@1000-per-10s'])
})

test.each([
  ['without a limit', { limit: undefined }],
  ['without the rest', { remaining: undefined }],
  ['whose wait is no number', { retryAfterMs: Number.NaN }],
  ['with fewer than 0 units', { remaining: -1 }],
  ['whose wait is over', { allowed: false, retryAfterMs: -5 }],
  ['whose end is past', { resetAfterMs: -5 }],
])('a verdict %s is a failure of the store', async (_, wrong) => {
  const store = new StubStore()
  store.answer = async charges => charges.map(({ limit }) => ({ ...freshVerdict(limit), ...wrong }) as never)
  const failures: string[] = []
  const observer = { storeFailed: (error: Error) => void failures.push(error.message) }
  expect((await over(store, { observer }).consume('a')).source).toBe('open')
  expect(failures).toEqual([expect.stringContaining('expected a verdict for each of 1 charges')])
})
