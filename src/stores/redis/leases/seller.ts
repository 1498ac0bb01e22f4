import { StoreError } from '../../../core/errors.js'
import { leaseBuy, leaseOut } from '../../../redis/scripts.js'
import type { Charge, ChargeReceipt } from '../../store.js'
import { type Changes, waitersChannel } from '../changes.js'
import type { StoreScripts } from '../store-scripts.js'
import { limitArguments, receiptArguments } from '../wire-format.js'
import type { LeaseTerms } from './terms.js'

/** The order of a process that buys units of a key. */
export interface LeaseOrder {
  readonly key: string
  /** The name of the lease. */
  readonly lease: string
  /** Units of one request; a refusal says when so many fit. */
  readonly cost: number
  /** Units needed by waiting requests. */
  readonly need: number
  /** Units that the process could use, `need` included. */
  readonly want: number
  /** Comes back with this order. */
  readonly unspent: UnspentUnits | undefined
  /** By `performance.now()`: after this the order is not carried out. */
  readonly endsAt: number
}

/** The charge of a lease: the data needed to give units of it back. */
export interface LeaseFacts {
  readonly key: string
  readonly lease: string
  /** Units that were sold. */
  readonly sold: number
  /** By the server's clock, ms. */
  readonly soldAt: number
  /** Under each limit, directly after the sale. */
  readonly remaining: readonly number[]
  readonly resetAfterMs: readonly number[]
}

/** Units of an earlier lease that were bought and not spent. */
export interface UnspentUnits {
  readonly facts: LeaseFacts
  readonly units: number
}

/** The result of an order. */
export interface Sale extends Pick<LeaseFacts, 'soldAt' | 'remaining' | 'resetAfterMs'> {
  /** Undefined: no lease can be sold now, because a request waits in line, or because a window ends. */
  readonly units: number | undefined
  /** How long the units may be spent, counted from the moment of the order. */
  readonly lastsMs: number
  /** For each limit: when one request fits, as the consume script returns it; 0: now. */
  readonly retries: readonly number[]
}

/** Sells leases. */
export interface LeaseSeller {
  /** Calls back once, in the order in which Redis answers all calls: see `Account`. */
  buy(order: LeaseOrder, sold: (sale: Sale) => void, failed: (error: unknown) => void): void
  /** Takes back unspent units, once for each lease. */
  returnLease(unspent: UnspentUnits): Promise<void>
  /** Takes back units that were spent, and settled after the end of the lease. */
  settle(facts: LeaseFacts, units: number, endsAt: number | undefined): Promise<void>
  /** For each limit, in how many ms units that other books hold come back at the latest; 0: none are out. Rejects if that cannot be known. */
  unitsOut(key: string, owner: string, endsAt: number | undefined): Promise<readonly number[]>
  /** False while the seller cannot be asked. */
  isReady(): boolean
}

/** The parts of the store that a seller uses. */
export interface SellingStore {
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
  /** The questions of this turn, by tag: refusals of one batch come together. */
  readonly #questions = new Map<number, Question[]>()

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
    const tag = keys.tagOf(charges[0])
    const returned = unspent && [unspent.facts.lease, String(unspent.units), String(unspent.facts.soldAt)]
    scripts.ask(
      {
        script: leaseBuy,
        does: 'sell a lease',
        tag,
        keys: [
          ...charges.map(charge => keys.blockListOf(charge, tag)),
          keys.marksOf(charges, tag),
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
        const sale = saleOf(reply, limits.length)
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

  unitsOut(key: string, owner: string, endsAt = performance.now() + ANSWER_WITHIN_MS): Promise<readonly number[]> {
    const { keys } = this.store.scripts
    const charges = this.#charges(key)
    const tag = keys.tagOf(charges[0])
    return new Promise((resolve, reject) => {
      const question = { keys: charges.map(charge => keys.leasesOf(charge, tag)), endsAt, resolve, reject }
      const questions = this.#questions.get(tag)
      if (questions !== undefined) {
        questions.push(question)
        return
      }
      this.#questions.set(tag, [question])
      queueMicrotask(() => this.#ask(tag, owner))
    })
  }

  #ask(tag: number, owner: string): void {
    const questions = this.#questions.get(tag) ?? []
    this.#questions.delete(tag)
    this.store.scripts.ask(
      {
        script: leaseOut,
        tag,
        keys: questions.flatMap(({ keys }) => keys),
        args: () => [String(this.terms.ttlMs), owner],
        endsAt: Math.max(...questions.map(question => question.endsAt)),
      },
      reply => {
        const [, ...out] = (reply as unknown[]).map(Number)
        for (const { keys, resolve } of questions) resolve(out.splice(0, keys.length))
      },
      error => {
        for (const { reject } of questions) reject(error)
      },
    )
  }

  #charges(key: string): Charge[] {
    return this.terms.limits.map(limit => ({ key, limit, limiter: this.limiter }))
  }

  /** A sliding window logs the units at the end of the lease. */
  #receipts({ key, sold, soldAt, remaining, resetAfterMs }: LeaseFacts): ChargeReceipt[] {
    const { ttlMs } = this.terms
    return this.#charges(key).map((charge, i) => ({
      ...charge,
      chargedAt: charge.limit.algorithm === 'sliding-window' ? soldAt + ttlMs : soldAt,
      cost: sold,
      remaining: remaining[i],
      resetAfterMs: resetAfterMs[i],
    }))
  }
}

/** For how long units of a key may be out. */
interface Question {
  /** Its leases under each limit. */
  readonly keys: readonly string[]
  readonly endsAt: number
  readonly resolve: (outMs: readonly number[]) => void
  readonly reject: (error: unknown) => void
}

/** Reads what `lease_buy` returns. */
function saleOf(reply: unknown, limits: number): Sale | StoreError {
  const numbers = Array.isArray(reply) ? reply.map(Number) : []
  const [soldAt, units, lastsMs] = numbers
  const none = units === -1
  if (numbers.length !== (none ? 3 : 3 + 3 * limits) || numbers.some(Number.isNaN)) {
    return new StoreError('Redis answered a purchase with something else than numbers')
  }
  const column = (first: number) => Array.from({ length: none ? 0 : limits }, (_, i) => numbers[3 + 3 * i + first])
  return {
    units: none ? undefined : units,
    soldAt,
    lastsMs,
    remaining: column(0),
    resetAfterMs: column(1),
    retries: column(2),
  }
}
