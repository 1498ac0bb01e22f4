import type { LimitAnswer } from './account.js'

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
  readonly limits: readonly LimitAnswer[]
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
  /** Under each limit, directly after the sale. `retry`: when one request fits, as the consume script returns it; 0: now. */
  readonly limits: readonly (LimitAnswer & { readonly retry: number })[]
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
