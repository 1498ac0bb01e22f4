import { beforeAll, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { leaseTerms } from '../../src/leases/terms.js'
import { parsePolicy } from '../../src/limiter/core/limit.js'
import { RedisStore } from '../../src/redis/store/redis-store.js'
import { ManualClock } from '../../src/testing.js'
import { START } from '../support/stories.js'
import { testRedis } from '../support/test-redis.js'
import { bought, redisSeller } from './redis-seller.js'

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.client()
})

const POLICIES = [
  '60/1s',
  '400/1s',
  '60/1s token-bucket',
  '400/1s token-bucket burst=300',
  '60/1s fixed-window',
  '60/1s sliding-counter',
  '400/1s; 60/400ms token-bucket name=short',
  '400/1s fixed-window; 60/400ms name=short',
]

test.each(POLICIES)(
  'under %s a repeated purchase sells nothing, and unspent units come back once, whatever is repeated',
  async policy => {
    const limits = parsePolicy(policy)
    const terms = leaseTerms(limits, { ttlMs: undefined, strict: true, store: 'RedisStore' })
    if (terms === undefined) throw new Error('these limits are not leased')
    const clock = new ManualClock(START)
    const prefix = `again ${policy}`
    const charges = limits.map(limit => ({ key: 'k', limit }))
    const store = new RedisStore(client, { clock, prefix })
    const seller = redisSeller(client, prefix, clock, terms)
    const remaining = async () => (await store.peek(charges, 0)).map(verdict => verdict.remaining)
    const order = {
      key: 'k',
      lease: 'l',
      cost: 1,
      need: 10,
      want: 10,
      unspent: undefined,
      endsAt: Number.MAX_SAFE_INTEGER,
    }

    const { units, ...facts } = await bought(seller, order)
    expect(units).toBe(10)
    const after = await remaining()
    expect((await bought(seller, order)).units).toBeUndefined()
    expect(await remaining()).toEqual(after)
    const unspent = { facts: { key: 'k', lease: 'l', sold: 10, ...facts }, units: 3 }
    await seller.returnLease(unspent)
    expect(await remaining()).toEqual(after.map(left => left + 3))

    for (const waitMs of [0, 5]) {
      clock.advance(waitMs)
      const before = await remaining()
      expect((await bought(seller, order)).units).toBeUndefined()
      await seller.returnLease(unspent)
      expect(await remaining()).toEqual(before)
    }
  },
)

test.each(POLICIES)(
  'under %s a batch leaves a lease that lasts as it is: what fits and what does not, then its unspent units come back',
  async policy => {
    const limits = parsePolicy(policy)
    const terms = leaseTerms(limits, { ttlMs: undefined, strict: true, store: 'RedisStore' })
    if (terms === undefined) throw new Error('these limits are not leased')
    const clock = new ManualClock(START)
    const prefix = `batch ${policy}`
    const charges = limits.map(limit => ({ key: 'k', limit }))
    const store = new RedisStore(client, { clock, prefix })
    const seller = redisSeller(client, prefix, clock, terms)
    const remaining = async () => (await store.peek(charges, 0)).map(verdict => verdict.remaining)
    const sale = { key: 'k', lease: 'l', cost: 1, need: 10, want: 10, unspent: undefined }
    const { units: sold, ...facts } = await bought(seller, { ...sale, endsAt: Number.MAX_SAFE_INTEGER })
    const least = Math.min(...(await remaining()))
    const batch = await Promise.all([least - 5, 6].map(cost => store.consume(charges, cost)))
    expect(batch.map(verdicts => verdicts.every(({ allowed }) => allowed))).toEqual([true, false])
    clock.advance(1)
    await store.consume(charges, 1)
    const before = await remaining()
    await seller.returnLease({ facts: { key: 'k', lease: 'l', sold: sold as number, ...facts }, units: 3 })
    // A bucket has sold again what it has regained since.
    const back = limits.map(({ algorithm, quota, windowMs }) =>
      algorithm.endsWith('bucket') ? 3 - Math.ceil(quota / windowMs) : 3,
    )
    expect(await remaining()).toEqual(before.map((left, i) => left + back[i]))
  },
)
