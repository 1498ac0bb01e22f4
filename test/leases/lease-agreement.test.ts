import { beforeAll, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { type LeasedLimit, sell, takeBack, unitsOutMs } from '../../src/leases/sale.js'
import type { LeaseFacts, UnspentUnits } from '../../src/leases/seller.js'
import { type LeaseTerms, leaseTerms } from '../../src/leases/terms.js'
import type { Receipt } from '../../src/limiter/algorithms/refund-note.js'
import { newNote, resetNote } from '../../src/limiter/algorithms/refund-note.js'
import { algorithmOf, measure, refund, spend } from '../../src/limiter/algorithms/registry.js'
import { blockedVerdict, type Verdict } from '../../src/limiter/core/decision.js'
import { type Limit, parsePolicy } from '../../src/limiter/core/limit.js'
import { RedisStore } from '../../src/redis/store/redis-store.js'
import { ManualClock } from '../../src/testing.js'
import { forCases } from '../support/cases.js'
import type { Random } from '../support/random.js'
import { START } from '../support/stories.js'
import { testRedis } from '../support/test-redis.js'
import { expectSameVerdicts } from '../support/verdicts.js'
import { bought, redisSeller } from './redis-seller.js'

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.bulkClient()
})

/** The windows are far longer than a case takes: Redis drops keys by its own clock. */
const POLICIES = [
  '60/30s',
  '400/30s',
  '300/90s',
  '60/30s token-bucket',
  '400/30s token-bucket burst=300',
  '1000/70s token-bucket burst=777',
  '60/30s fixed-window',
  '60/30s sliding-counter',
  '400/30s; 60/20s token-bucket name=short',
  '400/30s fixed-window; 60/20s name=short',
  '400/30s sliding-counter; 300/90s name=long',
]

/** One key in this process, changed by the arithmetic of src/limiter/algorithms alone. */
class KeptKey {
  readonly kept: LeasedLimit[]
  #blockedUntil = 0

  constructor(
    readonly limits: readonly Limit[],
    readonly clock: ManualClock,
  ) {
    const blockedMs = () => Math.max(0, this.#blockedUntil - clock.now())
    this.kept = limits.map(() => ({
      state: undefined,
      note: undefined,
      sold: new Map(),
      get blockedMs() {
        return blockedMs()
      },
    }))
  }

  verdicts(cost: number, spends: boolean): readonly Verdict[] {
    const ask = (units: number) => this.limits.map((limit, i) => measure(limit, this.kept[i].state, this.#now, units))
    const asked = ask(cost)
    const isBlocked = this.kept[0].blockedMs > 0
    const isAllowed = !isBlocked && asked.every(({ verdict }) => verdict.allowed)
    const standing = isAllowed ? asked : ask(0).map((now, i) => (asked[i].verdict.allowed ? now : asked[i]))
    if (spends) {
      for (const [i, { next }] of standing.entries()) if (next !== undefined) this.kept[i].state = next
    }
    return standing.map(({ verdict }) => (isBlocked ? blockedVerdict(verdict, this.kept[0].blockedMs) : verdict))
  }

  charge(cost: number): void {
    for (const [i, one] of this.kept.entries()) one.state = spend(this.limits[i], one.state, this.#now, cost)
  }

  refund(cost: number): void {
    for (const [i, one] of this.kept.entries()) {
      one.note ??= newNote()
      one.state = refund(this.limits[i], one.state, this.#now, cost, one.note) ?? one.state
    }
  }

  settle(units: number, receipts: readonly Receipt[]): void {
    for (const [i, one] of this.kept.entries()) {
      if (one.state === undefined) continue
      one.note ??= newNote()
      algorithmOf(this.limits[i].algorithm).giveBack(this.limits[i], one.state, this.#now, units, receipts[i], one.note)
    }
  }

  reset(): void {
    for (const [i, one] of this.kept.entries()) {
      const isUsed = measure(this.limits[i], one.state, this.#now, 0).verdict.resetAfterMs > 0
      if (isUsed && algorithmOf(this.limits[i].algorithm).notesResets) one.note = resetNote(this.#now)
      one.state = undefined
      one.sold = new Map()
    }
  }

  block(forMs: number): void {
    this.#blockedUntil = this.#now + forMs
  }

  get #now(): number {
    return this.clock.now()
  }
}

/** Plays the same random traffic to the scripts and to the arithmetic in TypeScript. */
async function agree(random: Random, id: string, terms: LeaseTerms, clockRunsBack: boolean): Promise<void> {
  const { limits, ttlMs } = terms
  const clock = new ManualClock(START + random.integer(0, 1000))
  const store = new RedisStore(client, { clock, prefix: id })
  const seller = redisSeller(client, id, clock, terms)
  const key = new KeptKey(limits, clock)
  const charges = limits.map(limit => ({ key: 'k', limit }))
  const sold: LeaseFacts[] = []
  const spent: (readonly Receipt[])[] = []
  const takeOne = (): UnspentUnits | undefined => {
    if (sold.length === 0 || random.integer(0, 2) > 0) return undefined
    const [facts] = sold.splice(random.integer(0, sold.length - 1), 1)
    if (random.integer(0, 4) === 0) sold.push(facts)
    return { facts, units: random.integer(1, facts.sold) }
  }
  const buy = async (lease: string) => {
    const need = random.integer(0, 10)
    const order = { lease, cost: random.integer(1, 4), need, want: need + random.integer(0, 80), unspent: takeOne() }
    const here = sell(terms, key.kept, order, clock.now())
    const there = await bought(seller, { ...order, key: 'k', endsAt: Number.MAX_SAFE_INTEGER })
    const { limits: verdicts, ...sale } = there
    expect(sale).toEqual({ units: here.units, soldAt: here.soldAt, lastsMs: here.lastsMs })
    expectSameVerdicts(verdicts, here.limits)
    if (there.units) sold.push({ key: 'k', lease, sold: there.units, soldAt: there.soldAt, limits: verdicts })
  }
  const decide = async () => {
    const cost = random.pick([1, 1, 2, random.integer(1, 30)])
    const verdicts = await store.consume(charges, cost)
    expectSameVerdicts(verdicts, key.verdicts(cost, true))
    if (verdicts.every(({ allowed }) => allowed)) {
      spent.push(verdicts.map(verdict => ({ chargedAt: clock.now(), cost, ...verdict })))
    }
  }
  for (let i = 0; i < 60; i++) {
    const dice = random.integer(0, 19)
    if (dice < 7) clock.advance(random.pick([0, 1, 5, ttlMs - 1, ttlMs, ttlMs + 1, 10_000, 28_000, 29_999, 30_000]))
    else if (dice < 12) await buy(`${random.pick(['a', 'b'])}.${i}`)
    else if (dice < 13) {
      const unspent = takeOne()
      if (unspent === undefined) continue
      takeBack(terms, key.kept, unspent, clock.now())
      await seller.returnLease(unspent)
    } else if (dice < 16) await decide()
    else if (dice === 16 && clockRunsBack) clock.advance(-random.pick([1, ttlMs - 1, ttlMs, 2 * ttlMs, 15_000, 90_000]))
    else if (dice === 16 && spent.length > 0) {
      const [receipts] = spent.splice(random.integer(0, spent.length - 1), 1)
      const units = random.integer(1, receipts[0].cost)
      key.settle(units, receipts)
      await store.giveBack(
        receipts.map((receipt, i) => ({ ...receipt, ...charges[i] })),
        units,
      )
    } else if (dice === 17) {
      const units = random.integer(1, 20)
      const verb = random.pick(['charge', 'refund'] as const)
      key[verb](units)
      await store[verb](charges, units)
    } else if (dice === 18 && !clockRunsBack) {
      const forMs = random.pick([0, 1, 300, 10_000])
      key.block(forMs)
      await store.block(charges, forMs)
    } else if (random.integer(0, 3) === 0) {
      key.reset()
      await store.reset(charges)
    }
    if (clockRunsBack) continue
    const cost = random.integer(0, 8)
    expectSameVerdicts(await store.peek(charges, cost), key.verdicts(cost, false))
    const out = key.kept.map(one => unitsOutMs(terms, one.sold, 'a', clock.now()))
    expect(await seller.unitsOut('k', 'a', undefined)).toEqual(out)
  }
}

function termsOf(policy: string): LeaseTerms {
  const terms = leaseTerms(parsePolicy(policy), { ttlMs: undefined, strict: true, store: 'RedisStore' })
  if (terms === undefined) throw new Error('these limits are not leased')
  return terms
}

test.each(POLICIES)('the scripts and src/limiter/algorithms sell, take back, decide and change %s alike', policy =>
  forCases(200, `leases ${policy}`, (random, id) => agree(random, id, termsOf(policy), false)),
)

test.each(POLICIES)('also if the clock runs back: %s', policy =>
  forCases(200, `leases back ${policy}`, (random, id) => agree(random, id, termsOf(policy), true)),
)
