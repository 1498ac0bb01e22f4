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
  /** Unspent units of an earlier lease. */
  readonly leftover: Leftover | undefined
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

/** Units that were bought and not spent. */
export interface Leftover {
  readonly facts: LeaseFacts
  readonly units: number
}

/** The result of an order. */
export interface Sale {
  /** Undefined: no lease can be sold now, because a request waits in line, or because a window ends. */
  readonly units: number | undefined
  readonly soldAt: number
  /** How long the units may be spent, counted from the moment of the order. */
  readonly lastsMs: number
  readonly remaining: readonly number[]
  readonly resetAfterMs: readonly number[]
  /** For each limit: when one request fits, as the consume script returns it; 0: now. */
  readonly retries: readonly number[]
}

/** Sells leases. */
export interface LeaseSeller {
  buy(order: LeaseOrder): Promise<Sale>
  /** Takes back unspent units, once for each lease. */
  returnLease(leftover: Leftover): Promise<void>
  /** Takes back units that were spent, and settled after the end of the lease. */
  settle(facts: LeaseFacts, units: number, endsAt: number | undefined): Promise<void>
  /** For each limit, in how many ms units that other books hold come back at the latest; 0: none are out. Rejects if that cannot be known. */
  unitsOut(key: string, owner: string, endsAt: number | undefined): Promise<readonly number[]>
  /** False while the seller cannot be asked. */
  isReady(): boolean
}
