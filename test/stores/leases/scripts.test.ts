import { beforeAll, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { parsePolicy } from '../../../src/core/limit.js'
import { portOf } from '../../../src/redis/clients.js'
import type { LeaseFacts, LeaseOrder, Sale, UnspentUnits } from '../../../src/stores/leases/seller.js'
import { type LeaseTerms, leaseTerms } from '../../../src/stores/leases/terms.js'
import { Changes } from '../../../src/stores/redis/changes.js'
import { ChargeKeys } from '../../../src/stores/redis/charge-keys.js'
import { RedisSeller } from '../../../src/stores/redis/lease-seller.js'
import { RedisStore } from '../../../src/stores/redis/redis-store.js'
import { ResetChannel } from '../../../src/stores/redis/reset-channel.js'
import { StoreScripts } from '../../../src/stores/redis/store-scripts.js'
import { ManualClock } from '../../../src/testing.js'
import { forCases } from '../../support/cases.js'
import { START } from '../../support/stories.js'
import { testRedis } from '../../support/test-redis.js'
import { SimulatedServer } from './simulated-seller.js'

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.client()
})

function sellerOf(prefix: string, clock: ManualClock, terms: LeaseTerms): RedisSeller {
  const port = portOf(client, 'test')
  const keys = new ChargeKeys(prefix, port, 1, () => {})
  const scripts = new StoreScripts(
    port,
    keys,
    () => String(clock.now()),
    () => {},
  )
  const changes = new Changes(scripts, ResetChannel.of(client, port, prefix), false)
  return new RedisSeller({ scripts, changes, giveBack: async () => {} }, terms, undefined)
}

function buy(seller: RedisSeller, order: LeaseOrder): Promise<Sale> {
  return new Promise((resolve, reject) => seller.buy(order, resolve, reject))
}

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
    const seller = sellerOf(prefix, clock, terms)
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

    const { units, ...facts } = await buy(seller, order)
    expect(units).toBe(10)
    const after = await remaining()
    expect((await buy(seller, order)).units).toBeUndefined()
    expect(await remaining()).toEqual(after)
    const unspent = { facts: { key: 'k', lease: 'l', sold: 10, ...facts }, units: 3 }
    await seller.returnLease(unspent)
    expect(await remaining()).toEqual(after.map(left => left + 3))

    for (const waitMs of [0, 5]) {
      clock.advance(waitMs)
      const before = await remaining()
      expect((await buy(seller, order)).units).toBeUndefined()
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
    const seller = sellerOf(prefix, clock, terms)
    const remaining = async () => (await store.peek(charges, 0)).map(verdict => verdict.remaining)
    const sale = { key: 'k', lease: 'l', cost: 1, need: 10, want: 10, unspent: undefined }
    const { units: sold, ...facts } = await buy(seller, { ...sale, endsAt: Number.MAX_SAFE_INTEGER })
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

test.each(POLICIES)('the scripts sell, take back and decide under %s as the simulated server does', async policy => {
  const limits = parsePolicy(policy)
  const terms = leaseTerms(limits, { ttlMs: undefined, strict: true, store: 'RedisStore' })
  if (terms === undefined) throw new Error('these limits are not leased')
  await forCases(15, `leases ${policy}`, async (random, id) => {
    const clock = new ManualClock(START + random.integer(0, 1000))
    const store = new RedisStore(client, { clock, prefix: id })
    const seller = sellerOf(id, clock, terms)
    const server = new SimulatedServer(terms)
    const charges = limits.map(limit => ({ key: 'k', limit }))
    const sold: LeaseFacts[] = []
    let newest: LeaseFacts | undefined
    const takeOne = (): UnspentUnits | undefined => {
      if (sold.length === 0 || random.integer(0, 2) > 0) return undefined
      const [facts] = sold.splice(random.integer(0, sold.length - 1), 1)
      // Of an older lease the script of a bucket gives back a little less: it knows the level then only to the unit.
      if (policy.includes('burst=') && facts !== newest) return undefined
      return { facts, units: random.integer(1, facts.sold) }
    }
    for (let i = 0; i < 60; i++) {
      const dice = random.integer(0, 9)
      if (dice < 4) clock.advance(random.pick([0, 1, 5, 19, 20, 21, 50, 400, 980, 1000]))
      else if (dice < 8) {
        const unspent = takeOne()
        const need = random.integer(0, 10)
        const lease = `${id} ${i}`
        const order = {
          key: 'k',
          lease,
          cost: 1,
          need,
          want: need + random.integer(0, 80),
          unspent,
          endsAt: Number.MAX_SAFE_INTEGER,
        }
        const expected = server.buy(clock.now(), order)
        const { units, lastsMs, limits, soldAt } = await buy(seller, order)
        const left = (sale: Pick<Sale, 'limits'>) => sale.limits.map(({ remaining }) => remaining)
        const seen = units === undefined ? { units } : { units, lastsMs, left: left({ limits }), soldAt }
        expect({ i, ...seen }).toEqual(
          expected.units === undefined
            ? { i, units: undefined }
            : {
                i,
                units: expected.units,
                lastsMs: expected.lastsMs,
                left: left(expected),
                soldAt: clock.now(),
              },
        )
        newest = units ? { key: 'k', lease, sold: units, soldAt, limits } : newest
        if (units && newest) sold.push(newest)
      } else if (dice < 9) {
        const unspent = takeOne()
        if (unspent === undefined) continue
        server.returnLease(clock.now(), unspent)
        await seller.returnLease(unspent)
      } else {
        newest = undefined
        const verdicts = await store.consume(charges, 1)
        expect({ i, allowed: verdicts.every(({ allowed }) => allowed) }).toEqual({
          i,
          allowed: server.spend(clock.now()),
        })
      }
    }
  })
})
