import { blockedVerdict, verdictOf } from '../limiter/core/decision.js'
import { StoreError } from '../limiter/core/errors.js'
import type { Limit } from '../limiter/core/limit.js'
import type { Charge, ChargeReceipt } from '../limiter/store.js'
import { leaseBuy, leaseOut } from '../redis/scripts.js'
import { type Changes, waitersChannel } from '../redis/store/changes.js'
import type { StoreScripts } from '../redis/store/store-scripts.js'
import { limitArguments, receiptArguments } from '../redis/store/wire-format.js'
import { leaseArithmeticOf } from './lease-arithmetic.js'
import type { LeaseFacts, LeaseOrder, LeaseSeller, Sale, UnspentUnits } from './seller.js'
import type { LeaseTerms } from './terms.js'

/** The parts of the store that a seller uses. */
interface SellingStore {
  readonly scripts: StoreScripts
  readonly changes: Changes
  readonly giveBack: (receipts: readonly ChargeReceipt[], units: number, endsAt?: number) => Promise<void>
}

/** Units of a lease are taken back within this time after the call, or not at all. */
const RETURN_WITHIN_MS = 1000
/** A question without a deadline is answered within this time, or not at all. */
const ANSWER_WITHIN_MS = 1000

/** Buys leases from Redis under one policy. */
export class RedisSeller implements LeaseSeller {
  readonly #limits: readonly string[]
  /** Questions that are not sent yet, by tag. */
  readonly #questions = new Map<number, Question>()

  constructor(
    readonly store: SellingStore,
    readonly terms: LeaseTerms,
    readonly limiter: string | undefined,
  ) {
    this.#limits = limitArguments(terms.limits, () => 0)
  }

  isReady(): boolean {
    return this.store.scripts.port.state() === 'ready'
  }

  buy(order: LeaseOrder, sold: (sale: Sale) => void, failed: (error: unknown) => void): void {
    const { key, lease, cost, need, want, unspent, endsAt } = order
    const { scripts } = this.store
    const { ttlMs, limits } = this.terms
    const { keys } = scripts
    const charges = this.#charges(key)
    const tag = keys.tagOf(charges[0].key)
    const returned = unspent && [unspent.facts.lease, String(unspent.units), String(unspent.facts.soldAt)]
    scripts.send(
      {
        script: leaseBuy,
        does: 'sell a lease',
        tag,
        keys: [
          ...charges.map(charge => keys.blockListOf(charge, tag)),
          keys.waitingUnitsOf(charges, tag),
          ...charges.map(charge => keys.keyOf(charge, tag)),
          ...charges.map(charge => keys.noteOf(charge, tag)),
          ...charges.map(charge => keys.leasesOf(charge, tag)),
          ...keys.lineOf(charges, tag),
        ],
        args: () => [
          ...[ttlMs, cost, need, want].map(String),
          lease,
          ...(returned ?? ['', '0', '0']),
          waitersChannel(keys.prefix),
          ...this.#limits,
          ...(unspent === undefined ? [] : receiptArguments(this.#receipts(unspent.facts))),
        ],
        endsAt,
      },
      reply => {
        const sale = saleOf(reply, limits)
        if (sale instanceof StoreError) failed(sale)
        else sold(sale)
      },
      failed,
    )
  }

  async returnLease({ facts, units }: UnspentUnits): Promise<void> {
    await this.store.changes.run('return', this.#receipts(facts), {
      units,
      words: () => [facts.lease, String(facts.soldAt)],
      endsAt: performance.now() + RETURN_WITHIN_MS,
    })
  }

  async settle(facts: LeaseFacts, units: number, endsAt: number | undefined): Promise<void> {
    if (units > 0) await this.store.giveBack(this.#receipts(facts), units, endsAt)
  }

  async unitsOut(
    key: string,
    owner: string,
    endsAt = performance.now() + ANSWER_WITHIN_MS,
  ): Promise<readonly number[]> {
    const { keys } = this.store.scripts
    const charges = this.#charges(key)
    const tag = keys.tagOf(charges[0].key)
    const question = this.#questions.get(tag) ?? this.#ask(tag, owner)
    const count = question.keys.push(...charges.map(charge => keys.leasesOf(charge, tag)))
    question.endsAt = Math.max(question.endsAt, endsAt)
    return (await question.outMs).slice(count - charges.length, count)
  }

  /** Sent when the running callback ends: the refusals of one batch come together. */
  #ask(tag: number, owner: string): Question {
    const { scripts } = this.store
    const args = () => [String(this.terms.ttlMs), owner]
    const outMs = Promise.resolve().then(async () => {
      this.#questions.delete(tag)
      const { keys, endsAt } = question
      const [, ...out] = (await scripts.run({ script: leaseOut, tag, keys, args, endsAt })) as unknown[]
      return out.map(Number)
    })
    const question: Question = { keys: [], endsAt: 0, outMs }
    this.#questions.set(tag, question)
    return question
  }

  #charges(key: string): Charge[] {
    return this.terms.limits.map(limit => ({ key, limit, limiter: this.limiter }))
  }

  /** What a lease was charged under each limit. */
  #receipts({ key, sold, soldAt, limits }: LeaseFacts): ChargeReceipt[] {
    return this.#charges(key).map((charge, i) => ({
      ...charge,
      chargedAt: leaseArithmeticOf(charge.limit)!.chargedAt(soldAt, this.terms.ttlMs),
      cost: sold,
      remaining: limits[i].remaining,
      resetAfterMs: limits[i].resetAfterMs,
    }))
  }
}

/** For how long units of some keys may be out. */
interface Question {
  /** The leases of each key under each limit. */
  readonly keys: string[]
  endsAt: number
  readonly outMs: Promise<readonly number[]>
}

/** Reads what `lease_buy` returns. */
function saleOf(reply: unknown, limits: readonly Limit[]): Sale | StoreError {
  const [soldAt, units, lastsMs, ...rest] = Array.isArray(reply) ? reply.map(Number) : []
  const none = units === -1
  if (rest.length !== (none ? 0 : 3 * limits.length) || ![soldAt, units, lastsMs, ...rest].every(Number.isFinite)) {
    return new StoreError('Redis answered a purchase with something else than numbers')
  }
  if (none) return { units: undefined, soldAt, lastsMs, limits: [] }
  const verdicts = limits.map((limit, i) => {
    const [remaining, resetAfterMs, retry] = rest.slice(3 * i)
    // As the consume script tells it.
    if (retry >= -1) return verdictOf(limit, remaining, retry < 0 ? Number.POSITIVE_INFINITY : retry, resetAfterMs)
    return blockedVerdict(verdictOf(limit, remaining, 0, resetAfterMs), -2 - retry)
  })
  return { units, soldAt, lastsMs, limits: verdicts }
}
