import { beforeAll, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import type { LeaseFacts, Sale, UnspentUnits } from '../../src/leases/seller.js'
import { type LeaseTerms, leaseTerms } from '../../src/leases/terms.js'
import { parsePolicy } from '../../src/limiter/core/limit.js'
import { ManualClock } from '../../src/testing.js'
import { forCases } from '../support/cases.js'
import type { Random } from '../support/random.js'
import { START } from '../support/stories.js'
import { testRedis } from '../support/test-redis.js'
import { bought, redisSeller } from './redis-seller.js'
import { SimulatedServer } from './simulated-seller.js'

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

function termsOf(policy: string): LeaseTerms {
  const terms = leaseTerms(parsePolicy(policy), { ttlMs: undefined, strict: true, store: 'RedisStore' })
  if (terms === undefined) throw new Error('these limits are not leased')
  return terms
}

test.each(POLICIES)(
  'under %s a repeated purchase sells nothing, and unspent units come back once, whatever is repeated',
  async policy => {
    const terms = termsOf(policy)
    const { limits } = terms
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
    const terms = termsOf(policy)
    const { limits } = terms
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

/** Plays random traffic to the scripts, and, unless the clock runs back, the same to the simulated server. */
async function play(random: Random, id: string, terms: LeaseTerms, runsBack: boolean): Promise<void> {
  const clock = new ManualClock(START + random.integer(0, 1000))
  const store = new RedisStore(client, { clock, prefix: id })
  const seller = redisSeller(client, id, clock, terms)
  const server = runsBack ? undefined : new SimulatedServer(terms)
  const charges = terms.limits.map(limit => ({ key: 'k', limit }))
  const sold: LeaseFacts[] = []
  let newest: LeaseFacts | undefined
  const takeOne = (): UnspentUnits | undefined => {
    if (sold.length === 0 || random.integer(0, 2) > 0) return undefined
    const [facts] = sold.splice(random.integer(0, sold.length - 1), 1)
    // Of an older lease the script of a bucket gives back a little less: it knows the level then only to the unit.
    if (terms.limits.some(({ algorithm }) => algorithm.endsWith('bucket')) && facts !== newest) return undefined
    return { facts, units: random.integer(1, facts.sold) }
  }
  const buy = async (lease: string) => {
    const need = random.integer(0, 10)
    const order = { lease, cost: 1, need, want: need + random.integer(0, 80), unspent: takeOne() }
    const expected = server?.buy(clock.now(), order)
    const sale = await bought(seller, { ...order, key: 'k', endsAt: Number.MAX_SAFE_INTEGER })
    if (expected !== undefined) expect(said(sale)).toEqual(said(expected))
    for (const { limit, remaining } of sale.limits) expect(remaining).toBeLessThanOrEqual(limit.burst)
    if (!sale.units) return
    newest = { key: 'k', lease, sold: sale.units, soldAt: sale.soldAt, limits: sale.limits }
    sold.push(newest)
  }
  for (let i = 0; i < 60; i++) {
    const dice = random.integer(0, 10)
    if (dice < 4) clock.advance(random.pick([0, 1, 5, 19, 20, 21, 50, 400, 980, 1000]))
    else if (dice < 8) await buy(`${id} ${i}`)
    else if (dice < 9) {
      const unspent = takeOne()
      if (unspent === undefined) continue
      server?.returnLease(clock.now(), unspent)
      await seller.returnLease(unspent)
    } else if (dice < 10) {
      newest = undefined
      const isAllowed = (await store.consume(charges, 1)).every(({ allowed }) => allowed)
      if (server !== undefined) expect({ i, isAllowed }).toEqual({ i, isAllowed: server.spend(clock.now()) })
    } else if (runsBack) clock.advance(-random.pick([1, 19, 20, 21, 500, 3000]))
  }
  // Writes what is then moved to now.
  const last = await store.consume(charges, 1)
  for (const { limit, remaining } of last) expect(remaining).toBeLessThanOrEqual(limit.burst)
  clock.advance(3 * Math.max(...terms.limits.map(({ windowMs }) => windowMs)))
  for (const { limit, remaining } of await store.peek(charges, 0)) expect(remaining).toBe(limit.burst)
}

function said({ units, lastsMs, limits }: Sale) {
  return units === undefined ? { units } : { units, lastsMs, left: limits.map(({ remaining }) => remaining) }
}

test.each(POLICIES)('the scripts sell, take back and decide under %s as the simulated server does', policy =>
  forCases(100, `leases ${policy}`, (random, id) => play(random, id, termsOf(policy), false)),
)

test.each(POLICIES)('under %s a clock that runs back makes no script fail, and all units come back in time', policy =>
  forCases(100, `leases back ${policy}`, (random, id) => play(random, id, termsOf(policy), true)),
)
