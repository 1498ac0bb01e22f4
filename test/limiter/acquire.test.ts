import { afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { CostError, TimeoutError } from '../../src/limiter/core/errors.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { RateLimiter, type RateLimiterOptions } from '../../src/limiter/rate-limiter.js'
import type { Store } from '../../src/limiter/store.js'
import { ManualClock } from '../../src/testing.js'
import { eventually } from '../support/eventually.js'
import * as lines from '../support/lines.js'
import { START } from '../support/stories.js'
import { StubStore } from '../support/stub-store.js'
import { testRedis } from '../support/test-redis.js'

const redis = testRedis()
let client: Redis
let prefixes = 0
beforeAll(() => {
  client = redis.client()
})

const stores: Store[] = []
afterEach(() => {
  for (const store of stores.splice(0)) store.close?.()
})

interface Place {
  readonly name: string
  /** A store, and what makes another one over the same state. */
  make(clock?: ManualClock): { store: Store; again(): Store }
  readonly shared: boolean
}

const MEMORY: Place = {
  name: 'memory',
  shared: false,
  make(clock) {
    const store = new MemoryStore({ clock })
    return { store, again: () => store }
  },
}
const REDIS: Place = {
  name: 'Redis',
  shared: true,
  make(clock) {
    const prefix = `acquire-${prefixes++}-`
    const again = () => new RedisStore(redis.client(), { clock, prefix })
    return { store: new RedisStore(client, { clock, prefix }), again }
  },
}

/** Who asked for the key `k`, and what became of it. */
interface Asked {
  /** 'granted', or the code of the error. */
  readonly end: Promise<string>
}

/** Notes who is served, in what order. */
class Served {
  constructor(
    readonly limiter: RateLimiter,
    readonly order: string[] = [],
  ) {}

  /** Asks; resolves when the wait has begun or is over already. */
  async ask(name: string, cost = 1): Promise<Asked> {
    const end = this.limiter.acquire('k', { cost }).then(
      () => {
        this.order.push(name)
        return 'granted'
      },
      error => String(error?.code ?? error),
    )
    // On one connection a later question is answered later.
    await this.limiter.peek('k', 0)
    return { end }
  }
}

const ends = (all: readonly Asked[]) => Promise.all(all.map(({ end }) => end))

describe.each([MEMORY, REDIS])('acquire on $name', ({ make, shared }) => {
  const setUp = (policy: string, options: Partial<RateLimiterOptions> = {}, clock?: ManualClock) => {
    const { store, again } = make(clock)
    stores.push(store)
    const limiter = (over = store) => new RateLimiter({ policy, store: over, deadline: '5s', ...options })
    return { store, limiter: limiter(), another: () => limiter(again()) }
  }
  const left = async (limiter: RateLimiter, key = 'k') => (await limiter.peek(key, 0)).remaining

  describe.each([
    ['sliding-window', '2/100ms'],
    ['token-bucket', '2/100ms token-bucket burst=2'],
    ['leaky-bucket', '2/100ms leaky-bucket burst=2'],
    ['fixed-window', '2/100ms fixed-window'],
    ['sliding-counter', '2/100ms sliding-counter'],
    ['several limits', '2/100ms; 100/1h token-bucket'],
  ])('books under %s', (algorithm, policy) => {
    test('grants in the order of the requests, and no more than the policy allows', async () => {
      const { limiter } = setUp(policy)
      const order: number[] = []
      const grantedAt: number[] = []
      const startedAt = performance.now()
      await Promise.all(
        Array.from({ length: 6 }, async (_, i) => {
          const decision = await limiter.acquire('k')
          expect(decision).toMatchObject({ allowed: true, retryAfterMs: 0, delayMs: 0, cost: 1, degraded: false })
          order.push(i)
          grantedAt.push(performance.now())
        }),
      )
      // Over Redis a grant that is read late is asked for again, behind others; the order of a line is tested below,
      // without time.
      const keepsOrder = !shared || algorithm === 'several limits'
      expect(keepsOrder ? order : [...order].sort()).toEqual([0, 1, 2, 3, 4, 5])
      // A bucket regains one each 50 ms; a leaky bucket lets only one leave at once.
      const waitsMs = algorithm === 'leaky-bucket' ? 250 : 200
      expect(grantedAt[5] - startedAt).toBeGreaterThanOrEqual(waitsMs - 2)
    })

    test('a later request with a lower cost does not overtake', async () => {
      const { limiter } = setUp(policy.replace('100ms', '1h'), {}, new ManualClock(START))
      const served = new Served(limiter)
      // One unit is left: too little for the first that waits, enough for the second.
      await limiter.consume('k', 1)
      const waiting = [await served.ask('two', 2), await served.ask('one', 1)]
      const { allowed } = await limiter.consume('k', 1)
      expect([allowed, served.order]).toEqual([false, []])
      await limiter.reset('k')
      await waiting[0].end
      await limiter.reset('k')
      expect(await ends(waiting)).toEqual(['granted', 'granted'])
      expect(served.order).toEqual(['two', 'one'])
    })

    test('a timeout of 0 takes a free unit and never waits', async () => {
      const { limiter } = setUp(policy.replace('100ms', '10s'))
      expect(await limiter.acquire('k', { timeout: 0 })).toMatchObject({ allowed: true })
      if (algorithm !== 'leaky-bucket') await limiter.acquire('k', { timeout: 0 })
      const startedAt = performance.now()
      await expect(limiter.acquire('k', { timeout: 0 })).rejects.toThrow(TimeoutError)
      expect(performance.now() - startedAt).toBeLessThan(2000)
    })

    test('a turn that would come too late rejects at once with its waiting time, and spends nothing', async () => {
      const { limiter } = setUp(policy.replace('100ms', '1h'), {}, new ManualClock(START))
      await limiter.consume('k', 2)
      const standing = await limiter.peek('k', 0)
      await expect(limiter.acquire('k', { timeout: '1m' })).rejects.toThrow(
        /the turn would come in \d+ ms, which is after the timeout/,
      )
      expect(await limiter.peek('k', 0)).toEqual(standing)
    })

    test('a cost that never fits is an error at once, and spends nothing', async () => {
      const { limiter } = setUp(policy)
      await expect(limiter.acquire('k', { cost: 3 })).rejects.toThrow(CostError)
      await expect(limiter.acquire('k', { cost: -1 })).rejects.toThrow(CostError)
      expect(await left(limiter)).toBe(2)
    })

    test('an abort ends the wait with its reason, spends nothing, and the waiters behind it move up', async () => {
      const { limiter } = setUp(policy.replace('100ms', '1h'), {}, new ManualClock(START))
      const served = new Served(limiter)
      await limiter.consume('k', 1)
      const control = new AbortController()
      const first = limiter.acquire('k', { cost: 2, signal: control.signal })
      await limiter.peek('k', 0)
      // As many as there is room for without the first.
      const second = await served.ask('second')
      const reason = new Error('the client has gone')
      const startedAt = performance.now()
      control.abort(reason)
      await expect(first).rejects.toBe(reason)
      if (algorithm === 'leaky-bucket') {
        // It still waits for the one before it to leave, half an hour, but not for the two that have gone, which spent
        // nothing.
        await eventually('only one has spent', async () => (await limiter.peek('k', 0)).resetAfterMs === 1_800_000)
        expect(served.order).toEqual([])
        await limiter.reset('k')
      }
      expect(await second.end).toBe('granted')
      expect(performance.now() - startedAt).toBeLessThan(5000)
    })

    test('a signal that was aborted before sends no request', async () => {
      const { limiter } = setUp(policy)
      const reason = new Error('too late')
      await expect(limiter.acquire('k', { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
      expect(await left(limiter)).toBe(2)
    })

    test('a refund and a reset let waiters move up', async () => {
      const { limiter } = setUp(policy.replace('100ms', '1h'), {}, new ManualClock(START))
      const served = new Served(limiter)
      await limiter.consume('k', 1)
      if (algorithm !== 'leaky-bucket') await limiter.consume('k', 1)
      const waiting = [await served.ask('a'), await served.ask('b')]
      await limiter.refund('k', 1)
      expect(await waiting[0].end).toBe('granted')
      expect(served.order).toEqual(['a'])
      await limiter.reset('k')
      expect(await waiting[1].end).toBe('granted')
      expect(served.order).toEqual(['a', 'b'])
    })

    test('a settled decision lets waiters move up', async () => {
      const { limiter } = setUp(policy.replace('100ms', '1h'), {}, new ManualClock(START))
      const served = new Served(limiter)
      const decision = await limiter.consume('k', 2)
      const waiting = await served.ask('a')
      await limiter.settle(decision, 0)
      expect(await waiting.end).toBe('granted')
    })

    test('an acquired decision can be settled', async () => {
      const { limiter } = setUp(policy.replace('100ms', '1h'), {}, new ManualClock(START))
      const decision = await limiter.acquire('k', { cost: 2 })
      expect(await left(limiter)).toBe(0)
      await limiter.settle(decision, 0)
      expect(await left(limiter)).toBe(2)
    })

    test('a blocked key grants nothing: waiters ask again when the block is over, in their order', async () => {
      const clock = new ManualClock(START)
      const { limiter } = setUp(policy.replace('100ms', '1h'), {}, clock)
      await limiter.block('k', '50ms')
      await expect(limiter.acquire('k', { timeout: 20 })).rejects.toThrow(TimeoutError)
      await expect(limiter.acquire('k', { timeout: 0 })).rejects.toThrow(TimeoutError)
      const served = new Served(limiter)
      const waiting = [await served.ask('a'), await served.ask('b')]
      expect(await limiter.peek('k', 0)).toMatchObject({ remaining: 2 })
      expect(served.order).toEqual([])
      // They ask again after 50 ms of real time, and as often as the block stands then.
      clock.advance(50)
      if (algorithm !== 'leaky-bucket') expect(await ends(waiting)).toEqual(['granted', 'granted'])
      else expect(await waiting[0].end).toBe('granted')
      expect(served.order).toEqual(['a', 'b'].slice(0, served.order.length))
      await limiter.reset('k')
      await ends(waiting)
      expect(served.order).toEqual(['a', 'b'])
    })

    test('an unblocked key is served at once', async () => {
      const { limiter } = setUp(policy)
      await limiter.block('k', '1h')
      const waiting = await new Served(limiter).ask('a')
      await limiter.unblock('k')
      expect(await waiting.end).toBe('granted')
    })

    test('a waiter that gives up during a block is forgotten', async () => {
      const { limiter } = setUp(policy)
      await limiter.block('k', '1h')
      const control = new AbortController()
      const waiting = limiter.acquire('k', { signal: control.signal })
      await limiter.peek('k', 0)
      control.abort(new Error('enough'))
      await expect(waiting).rejects.toThrow('enough')
      await limiter.unblock('k')
      expect(await left(limiter)).toBe(2)
    })

    // Under several limits each process has a line of its own.
    if (!shared || algorithm === 'several limits') return

    test('is one line for all processes: requests over two connections are granted in their order', async () => {
      const one = policy.replace('2/100ms', '1/1h').replace('burst=2', 'burst=1')
      const { limiter, another } = setUp(one)
      const here = new Served(limiter)
      const there = new Served(another(), here.order)
      await limiter.consume('k')
      const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g']
      const asked: Asked[] = []
      for (const [i, name] of names.entries()) {
        asked.push(await (i % 2 === 0 ? here : there).ask(name))
        await inLine(i + 1)
      }
      // One turn at a time: answers over two connections may be read in any order.
      for (const [i, { end }] of asked.entries()) {
        await limiter.reset('k')
        await end
        expect(here.order).toEqual(names.slice(0, i + 1))
      }
    })
  })

  test('a waiter that is not the first is refused at once if its turn comes too late', async () => {
    const clock = new ManualClock(START)
    const { limiter } = setUp('1/100ms fixed-window', {}, clock)
    await limiter.consume('k')
    const first = limiter.acquire('k')
    // Its turn would come in 200 ms.
    await expect(limiter.acquire('k', { timeout: 150 })).rejects.toThrow(TimeoutError)
    clock.advance(100)
    expect(await first).toMatchObject({ allowed: true })
    // Nobody has spent the permit of the next window.
    clock.advance(100)
    expect((await limiter.peek('k', 0)).remaining).toBe(1)
  })

  test('a grant to a waiter that has left is given back', async () => {
    const { limiter } = setUp('3/1h fixed-window')
    const control = new AbortController()
    const first = limiter.acquire('k', { cost: 3, signal: control.signal })
    control.abort(new Error('gone'))
    if (!shared) {
      // Granted before anybody could give up.
      await first
      await limiter.reset('k')
    } else await expect(first).rejects.toThrow('gone')
    expect(await limiter.acquire('k', { cost: 3 })).toMatchObject({ allowed: true, remaining: 0 })
  })

  test('a cost that one of several limits never allows is an error at once, and spends nothing', async () => {
    const { limiter } = setUp('5/1h fixed-window; 2/1h sliding-counter')
    await expect(limiter.acquire('k', { cost: 3 })).rejects.toThrow(
      'cost 3: limit "2-per-1h" never allows so much at once',
    )
    expect(await left(limiter)).toBe(2)
  })

  test('in shadow mode no request waits', async () => {
    for (const policy of ['1/1h', '1/1h fixed-window']) {
      const { limiter } = setUp(policy, { shadow: true })
      await limiter.acquire('k')
      expect(await limiter.acquire('k')).toMatchObject({ allowed: true, remaining: 0, verdicts: [{ allowed: false }] })
      expect(await limiter.acquire('k', { cost: 5 })).toMatchObject({ allowed: true })
    }
  })
})

/** Resolves when so many wait for `k` under the newest prefix. */
const inLine = (count: number) => lines.inLine(client, `acquire-${prefixes - 1}-*:line`, count)

describe('a store of the user, which keeps no lines: waiters', () => {
  test('whose turn would come after their timeout are refused at once, also those behind the first', async () => {
    const store = new StubStore()
    store.deny(60_000)
    const limiter = new RateLimiter({ policy: '1/1h', store, denyCache: false })
    const control = new AbortController()
    const first = limiter.acquire('k', { signal: control.signal })
    const tooFar = 'which is after the timeout'
    await expect(limiter.acquire('k', { timeout: '1s' })).rejects.toThrow(tooFar)
    // By now the first one knows how long it will be.
    await expect(limiter.acquire('k', { timeout: '1s' })).rejects.toThrow(tooFar)
    control.abort(new Error('enough'))
    await expect(first).rejects.toThrow('enough')
  })

  test('are refused at the end of their timeout while the store is silent', async () => {
    const store = new StubStore()
    store.answer = () => new Promise(() => {})
    const limiter = new RateLimiter({ policy: '1/1h', store, deadline: '1s', observer: {} })
    await expect(limiter.acquire('k', { timeout: 30 })).rejects.toThrow('the turn did not come within 30 ms')
  })

  test('are rejected when their limiter is closed, and the store is not asked any more', async () => {
    const store = new StubStore()
    store.deny(50)
    const limiter = new RateLimiter({ policy: '1/1h', store, denyCache: false })
    const outcomes = Promise.allSettled([limiter.acquire('k'), limiter.acquire('k'), limiter.acquire('other')])
    await eventually('both lines have asked', () => store.calls.length === 2)
    await limiter.close()
    for (const outcome of await outcomes) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: { name: 'StoreError' } })
    }
    await new Promise(resolve => setTimeout(resolve, 100))
    expect(store.calls.length).toBe(2)
  })
})

/** A store without lines, whose limits are those of a store in this process. */
function withoutLines(answersAfterMs = 0) {
  const memory = new MemoryStore()
  stores.push(memory)
  const calls: string[] = []
  const by =
    <A extends unknown[], R>(verb: string, call: (...args: A) => R) =>
    async (...args: A) => {
      calls.push(verb)
      if (answersAfterMs > 0) await new Promise(resolve => setTimeout(resolve, answersAfterMs))
      return call(...args)
    }
  const store: Store = {
    consume: by('consume', (charges, cost) => memory.consume(charges, cost)),
    peek: by('peek', (charges, cost) => memory.peek(charges, cost)),
    refund: by('refund', (charges, cost) => memory.refund(charges, cost)),
    reset: by('reset', charges => memory.reset(charges)),
    // The moments of receipts are those of another clock.
    giveBack: by('giveBack', (receipts, units) => memory.refund(receipts, units)),
  }
  return { store, calls }
}

describe('a leaky bucket over a store that keeps no lines: acquire waits out the delay', () => {
  const policy = '10/1s leaky-bucket burst=3'

  test('so that calls leave one after the other', async () => {
    const limiter = new RateLimiter({ policy, store: withoutLines().store })
    const startedAt = performance.now()
    const decisions = await Promise.all(
      Array.from({ length: 5 }, async () => ({ ...(await limiter.acquire('k')), at: performance.now() - startedAt })),
    )
    for (const [i, { at, delayMs, verdicts }] of decisions.entries()) {
      expect(at).toBeGreaterThanOrEqual(100 * i - 1)
      expect([delayMs, ...verdicts.map(({ delayMs }) => delayMs)]).toEqual([0, 0])
    }
  })

  test('and spends nothing if the delay is longer than the timeout, or the wait ends before', async () => {
    const limiter = new RateLimiter({ policy, store: withoutLines().store })
    await limiter.consume('k', 2)
    await expect(limiter.acquire('k', { timeout: 50 })).rejects.toThrow('which is after the timeout')
    await expect(limiter.acquire('k', { timeout: 0 })).rejects.toThrow('which is after the timeout')
    const control = new AbortController()
    const waiting = limiter.acquire('k', { signal: control.signal })
    await eventually('it is let in', async () => (await limiter.peek('k', 0)).remaining === 0)
    control.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
    const closed = limiter.acquire('k')
    await eventually('its unit is back, and spent again', async () => (await limiter.peek('k', 0)).remaining === 0)
    await limiter.close()
    await expect(closed).rejects.toThrow('closed while this waited')
    await eventually('all is back', async () => (await limiter.peek('k', 0)).remaining === 3)
  })

  test('and a decision is settled as any other', async () => {
    const limiter = new RateLimiter({ policy, store: withoutLines().store })
    await limiter.consume('k', 2)
    await limiter.settle(await limiter.acquire('k'), 0)
    expect((await limiter.peek('k', 0)).remaining).toBeGreaterThanOrEqual(2)
  })
})

test('waiters that one signal ends ask no more', async () => {
  const { store, calls } = withoutLines(20)
  const limiter = new RateLimiter({ policy: '10/200ms fixed-window', store, denyCache: false })
  await limiter.consume('k', 10)
  const control = new AbortController()
  const waiting = Array.from({ length: 200 }, () => limiter.acquire('k', { signal: control.signal }).catch(() => {}))
  await eventually('the first has asked, and waits', async () => calls.length === 2)
  calls.length = 0
  await eventually('it asks again', async () => calls.length === 1)
  control.abort(new Error('enough'))
  await Promise.all(waiting)
  await eventually('what came too late is given back', async () => calls.includes('giveBack'))
  expect(calls.filter(verb => verb === 'consume')).toHaveLength(1)
})

test('only the first in line asks a store of the user, and only when it may come back', async () => {
  const store = new StubStore()
  store.deny(100)
  const limiter = new RateLimiter({ policy: '1/1s fixed-window', store, denyCache: false })
  const control = new AbortController()
  const waiting = Array.from({ length: 100 }, () => limiter.acquire('k', { signal: control.signal }).catch(() => {}))
  // The subject is how often the store is asked in a quarter of a second.
  await new Promise(resolve => setTimeout(resolve, 250))
  expect(store.calls.length).toBeGreaterThanOrEqual(2)
  expect(store.calls.length).toBeLessThanOrEqual(3)
  control.abort(new Error('enough'))
  await Promise.all(waiting)
})
