import { describe, expect, test } from '@jest/globals'
import type { Decision } from '../../src/limiter/core/decision.js'
import { CostError, PolicyError } from '../../src/limiter/core/errors.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { StubStore } from '../support/stub-store.js'

describe('decide', () => {
  test.each(['5/1m', '5/1m; 100/1h'])('over memory gives the decision itself under %s', policy => {
    const limiter = new RateLimiter({ policy })
    expect(limiter.decide('k', 3)).toMatchObject({ allowed: true, remaining: 2, cost: 3, source: 'memory' })
    expect(limiter.decide('k')).toMatchObject({ allowed: true, remaining: 1, cost: 1 })
    expect(limiter.decide('k', 2)).toMatchObject({ allowed: false, remaining: 1 })
    expect(limiter.decide({ '5-per-1m': 7 })).toMatchObject({ key: '7', remaining: 4 })
  })

  test('over another store returns a promise, but a remembered denial directly', async () => {
    const store = new StubStore()
    store.deny(60_000)
    const limiter = new RateLimiter({ policy: '5/1m', store })
    const first = limiter.decide('k')
    expect(first).toBeInstanceOf(Promise)
    expect(await first).toMatchObject({ allowed: false, source: 'redis' })
    expect(limiter.decide('k')).toMatchObject({ allowed: false, source: 'deny-cache' })
  })

  test('during an outage resolves by the failure policy', async () => {
    const store = new StubStore()
    store.answer = async () => {
      throw new Error('down')
    }
    const limiter = new RateLimiter({ policy: '5/1m', store, onStoreFailure: 'open', observer: {} })
    expect(await limiter.decide('k')).toMatchObject({ allowed: true, source: 'open', degraded: true })
  })

  test.each([-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, '1', null, 1n])(
    'throws CostError for a cost of %p, and PolicyError for an invalid key, before the store is asked',
    cost => {
      const store = new StubStore()
      const limiter = new RateLimiter({ policy: '5/1m', store })
      expect(() => limiter.decide('k', cost as number)).toThrow(CostError)
      expect(() => limiter.decide(null as unknown as string)).toThrow(PolicyError)
      expect(store.calls).toEqual([])
    },
  )

  test('gives a decision that can be settled', async () => {
    const limiter = new RateLimiter({ policy: '5/1m' })
    const decision = limiter.decide('k', 4) as Decision
    await limiter.settle(decision, 1)
    expect(limiter.decide('k', 0)).toMatchObject({ remaining: 4 })
  })

  test('calls the observer once', () => {
    const told: Array<[number, string]> = []
    const observer = { decided: ({ cost }: Decision, name: string) => void told.push([cost, name]) }
    const limiter = new RateLimiter({ policy: '5/1m', name: 'api', observer })
    limiter.decide('k', 2)
    limiter.decide('k', 9)
    expect(told).toEqual([
      [2, 'api'],
      [9, 'api'],
    ])
  })
})
