/** With the options that each has when none are given. */
export type ClientKind = 'ioredis' | 'ioredis5' | 'node-redis'

/** Where the servers are, and of which kind. */
export type Place =
  | { readonly kind: 'single'; readonly ports: readonly number[] }
  | { readonly kind: 'cluster'; readonly ports: readonly number[] }
  | { readonly kind: 'sentinel'; readonly ports: readonly number[]; readonly name: string }

/** The requests of a process, and their server. */
export interface Scene {
  readonly place: Place
  /** Per key and hour. */
  readonly quota: number
  /** Of the quota: what one process grants alone. */
  readonly share: number
  readonly deadlineMs: number
  /** Decisions in flight in each process. */
  readonly inFlight: number
  /** How many keys are asked at a time, by all processes together; every 50 ms other ones. */
  readonly keys: number
  /** Ask the same keys all the time, so that nothing grows with their number. */
  readonly sameKeys?: boolean
}

/** The results of one key in one process. */
export interface KeyTally {
  /** When it was first and last asked for, ms since the epoch. */
  firstAt: number
  lastAt: number
  asked: number
  /** Units admitted by Redis, and by the failure policy. */
  redis: number
  fallback: number
  /** Decisions that the failure policy gave. */
  degraded: number
}

export interface Report {
  readonly client: ClientKind
  readonly decisions: number
  readonly degraded: number
  /**
   * Of the latest decision, ms from asking to answer, less the time in which the process had no processor after the
   * deadline.
   */
  readonly slowestMs: number
  /** The same with nothing taken off. */
  readonly slowestRawMs: number
  readonly keys: ReadonlyMap<string, KeyTally>
  readonly opened: number
  readonly closed: number
  readonly errors: readonly string[]
  /** Rejections that nobody handled, errors that nobody caught, warnings. */
  readonly unhandled: readonly string[]
}

export type Order =
  | { readonly order: 'begin'; readonly scene: Scene; readonly client: ClientKind }
  /** When it has had so many answers in a row from Redis, of which the first came after `since`. */
  | { readonly order: 'back'; readonly since: number; readonly timeoutMs: number }
  /** Time decisions from now on. */
  | { readonly order: 'time' }
  | { readonly order: 'heap' }
  | { readonly order: 'end' }

/** Ms since the epoch, finer than a ms; comparable between processes of one machine. */
export function epochMs(): number {
  return performance.timeOrigin + performance.now()
}
