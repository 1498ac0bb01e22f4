/** What a process asks for when it buys units of a key. */
export interface LeaseOrder {
  readonly key: string
  /** The name of the lease. */
  readonly lease: string
  /** Units of one request; a refusal says when so many fit. */
  readonly cost: number
  /** Units that requests wait for. */
  readonly need: number
  /** Units that the process could use, those included. */
  readonly want: number
  /** What is left of an earlier lease. */
  readonly leftover: Leftover | undefined
  /** By `performance.now()`: later the order is not carried out. */
  readonly endsAt: number
}

/** What a lease was charged, as it has to be known to take units of it back. */
export interface LeaseFacts {
  readonly key: string
  readonly lease: string
  /** Units that were sold. */
  readonly sold: number
  /** By the server's clock, ms. */
  readonly soldAt: number
  /** Of each limit, just after the sale. */
  readonly remaining: readonly number[]
  readonly resetAfterMs: readonly number[]
}

/** Units that were bought and not spent. */
export interface Leftover {
  readonly facts: LeaseFacts
  readonly units: number
}

/** What was sold. */
export interface Sale {
  /** Undefined: no lease can be sold now, because somebody waits in line, or because a window ends. */
  readonly units: number | undefined
  readonly soldAt: number
  /** How long the units may be spent, counted from before they were asked for. */
  readonly lastsMs: number
  readonly remaining: readonly number[]
  readonly resetAfterMs: readonly number[]
  /** Of each limit: when one request fits, as the consume script tells it; 0: it does. */
  readonly retries: readonly number[]
}

/** Who sells leases. */
export interface LeaseSeller {
  buy(order: LeaseOrder): Promise<Sale>
  /** Takes units back that were never spent, once for each lease. */
  takeBack(leftover: Leftover): Promise<void>
  /** Takes units back that were spent and settled after the lease had ended. */
  settle(facts: LeaseFacts, units: number, endsAt: number | undefined): Promise<void>
  /** False while nobody can be asked. */
  isReady(): boolean
}
