import {
  LEASES_KEPT_MS,
  type LeasedLimit,
  receiptOf,
  type SoldLeases,
  sell,
  takeBack,
  unitsOutMs,
} from '../leases/sale.js'
import type { LeaseFacts, LeaseOrder, LeaseSeller, Sale, UnspentUnits } from '../leases/seller.js'
import type { LeaseTerms } from '../leases/terms.js'
import type { Limit } from '../limiter/core/limit.js'
import type { Charge, ChargeReceipt } from '../limiter/store.js'
import { blockedMs, type ChangeOptions, keepNote, keepState, lasts, noteOf } from './changes.js'
import type { KeptLimit, RowDraft } from './key-row.js'

/** The parts of the store that a seller uses. */
interface SellingStore {
  run<T>(
    charges: readonly Charge[],
    apply: (drafts: readonly RowDraft[], nowMs: number) => T,
    options: ChangeOptions,
    done: (value: T) => void,
    failed: (error: unknown) => void,
  ): void
  change<T>(
    charges: readonly Charge[],
    apply: (drafts: readonly RowDraft[], nowMs: number) => T,
    options: ChangeOptions,
  ): Promise<{ readonly value: T }>
  giveBack(receipts: readonly ChargeReceipt[], units: number, endsAt?: number): Promise<void>
}

/** Sells leases of one policy: a purchase, and what comes back, are one change of the key's row. */
export class SqlSeller implements LeaseSeller {
  constructor(
    readonly store: SellingStore,
    readonly terms: LeaseTerms,
    readonly limiter: string | undefined,
  ) {}

  /** A pool tells only by an answer, or by none. */
  isReady(): boolean {
    return true
  }

  /**
   * Reads the row, then writes it: so the moment of the sale is the database's clock after the order was sent. If the
   * answer is lost while there is time left, it asks again: a lease that was sold meanwhile is found by its name.
   */
  buy(order: LeaseOrder, sold: (sale: Sale) => void, failed: (error: unknown) => void, isSecond = false): void {
    const { endsAt } = order
    this.store.run(
      this.#charges(order.key),
      (drafts, nowMs) => this.#change(drafts, nowMs, kept => sell(this.terms, kept, order, nowMs)),
      { endsAt, reads: true },
      sold,
      error => {
        if (isSecond || performance.now() >= endsAt) failed(error)
        else this.buy(order, sold, failed, true)
      },
    )
  }

  async returnLease(unspent: UnspentUnits): Promise<void> {
    await this.store.change(
      this.#charges(unspent.facts.key),
      (drafts, nowMs) => this.#change(drafts, nowMs, kept => takeBack(this.terms, kept, unspent, nowMs)),
      {},
    )
  }

  async settle(facts: LeaseFacts, units: number, endsAt: number | undefined): Promise<void> {
    const receipts = this.#charges(facts.key).map(
      (charge, i): ChargeReceipt => ({ ...charge, ...receiptOf(this.terms, facts, i) }),
    )
    await this.store.giveBack(receipts, units, endsAt)
  }

  async unitsOut(key: string, owner: string, endsAt: number | undefined): Promise<readonly number[]> {
    const { limits } = this.terms
    const look = (drafts: readonly RowDraft[], nowMs: number) =>
      limits.map((limit, i) => unitsOutMs(this.terms, soldIn(drafts[i].of(limit)), owner, nowMs))
    return (await this.store.change(this.#charges(key), look, { endsAt, reads: true })).value
  }

  #charges(key: string): Charge[] {
    return this.terms.limits.map(limit => ({ key, limit, limiter: this.limiter }))
  }

  /** Writes only what was sold or has come back. */
  #change<T>(drafts: readonly RowDraft[], nowMs: number, change: (kept: readonly LeasedLimit[]) => T): T {
    const { limits, ttlMs } = this.terms
    const before = limits.map((limit, i) => drafts[i].of(limit))
    const after = before.map(kept => leasedIn(kept, nowMs))
    const sold = after.map(one => one.sold)
    const value = change(after)
    limits.forEach((limit, i) => {
      if (after[i].sold !== sold[i]) write(drafts[i], limit, after[i], nowMs, ttlMs)
    })
    return value
  }
}

function write(draft: RowDraft, limit: Limit, { state, note, sold }: LeasedLimit, nowMs: number, ttlMs: number): void {
  if (state !== undefined) keepState(draft, limit, state, nowMs)
  if (note !== undefined) keepNote(draft, limit, note, nowMs)
  const kept = draft.change(limit)
  kept.sold = new Map([...sold].map(([name, lease]) => [name, NUMBERS.map(number => lease[number])]))
  lasts(kept, nowMs + ttlMs + LEASES_KEPT_MS)
}

/** What is written of a sold lease, in this order. */
const NUMBERS = ['soldAt', 'units', 'lastsMs', 'remaining', 'resetAfterMs'] as const

function leasedIn(kept: Readonly<KeptLimit> | undefined, nowMs: number): LeasedLimit {
  return {
    state: kept?.state,
    note: kept?.note && noteOf(kept, nowMs),
    sold: soldIn(kept),
    blockedMs: blockedMs(kept, nowMs),
  }
}

function soldIn(kept: Readonly<KeptLimit> | undefined): SoldLeases {
  const leases = [...(kept?.sold ?? [])]
  return new Map(
    leases.map(([name, [soldAt, units, lastsMs, remaining, resetAfterMs]]) => [
      name,
      { soldAt, units, lastsMs, remaining, resetAfterMs },
    ]),
  )
}
