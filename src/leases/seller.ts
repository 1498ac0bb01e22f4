import type { Verdict } from '../limiter/core/decision.js'
import type { Standing } from '../limiter/port.js'

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
  readonly limits: Standing['limits']
}

/** Units of an earlier lease that were bought and not spent. */
export interface UnspentUnits {
  readonly facts: LeaseFacts
  readonly units: number
}

/** The result of an order. */
export interface Sale {
  /** Undefined: no lease can be sold now, because a request waits in line, or because a window ends. */
  readonly units: number | undefined
  /** By the server's clock, ms. */
  readonly soldAt: number
  /** How long the units may be spent, counted from the moment of the order. */
  readonly lastsMs: number
  /**
   * Under each limit, directly after the sale: what is left, and, if fewer units were sold than are needed, when one
   * request fits. Empty if no lease can be sold.
   */
  readonly limits: readonly Verdict[]
}

/** Sells leases. */
export interface LeaseSeller {
  /** Calls back once, in the order in which the store answers all calls: see `Account`. */
  buy(order: LeaseOrder, sold: (sale: Sale) => void, failed: (error: unknown) => void): void
  /** Takes back unspent units, once for each lease. */
  returnLease(unspent: UnspentUnits): Promise<void>
  /** Takes back units that were spent, and settled after the end of the lease. */
  settle(facts: LeaseFacts, units: number, endsAt: number | undefined): Promise<void>
  /**
   * For each limit, in how many ms units that other books hold come back at the latest; 0: none are out. Rejects if
   * that cannot be known.
   */
  unitsOut(key: string, owner: string, endsAt: number | undefined): Promise<readonly number[]>
  /** False while the seller cannot be asked. */
  isReady(): boolean
}

/**
 * A refusal that does not last longer than `mostMs`, because units may come back from leases by then. A block, and a
 * cost that never fits, are not affected.
 */
export function capped(verdict: Verdict, mostMs: number): Verdict {
  const { retryAfterMs, blocked } = verdict
  if (blocked || retryAfterMs <= mostMs || retryAfterMs === Number.POSITIVE_INFINITY) return verdict
  return { ...verdict, retryAfterMs: mostMs }
}
