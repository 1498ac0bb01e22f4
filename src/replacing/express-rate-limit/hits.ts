import { after, type SyncOrAsync } from '../../http/sync-or-async.js'
import type { Verdict } from '../../limiter/core/decision.js'
import type { Duration } from '../../limiter/core/duration.js'
import { type GuardedPolicy, guardedAlone } from '../../limiter/guarded-policy.js'
import { knownCounts } from '../../limiter/port.js'
import type { Store as SpillwayStore } from '../../limiter/store.js'
import type { Client, ClientRateLimitInfo, Options, Store } from './options.js'

/** Never reached, so that a store only counts and never refuses; short enough for code that writes numbers as text. */
const ENDLESS = 10 ** 12

/** A separate limiter name, so that other limiters on the same store do not share these counts. */
export const HITS_LIMITER = 'erl'
export const HITS_LIMIT = 'hits'

/** Of a limiter whose `windowMs` is not given, or is no number. */
export const DEFAULT_WINDOW_MS = 60_000

/**
 * `windowMs` as plain JavaScript passes it on: a text of the environment is its number, and '15m' is a duration. 0 and
 * less: as in express-rate-limit, a window ends when it begins, and nothing is refused.
 */
export function windowOf(windowMs: unknown): Duration {
  const isBlank = typeof windowMs === 'string' && windowMs.trim() === ''
  const length = isBlank ? Number.NaN : Math.trunc(Number(windowMs))
  if (Number.isFinite(length)) return length
  return typeof windowMs === 'string' && !isBlank ? (windowMs as Duration) : DEFAULT_WINDOW_MS
}

/** Counts hits in a store of spillway, as express-rate-limit expects: all in one fixed window, the refused ones too. */
export abstract class HitsStore implements Store {
  /** Whether other instances never count the same keys. */
  abstract readonly localKeys: boolean
  /** The window of the limiter that uses it; 60 000 ms before `init`. */
  windowMs = DEFAULT_WINDOW_MS
  readonly #core: SpillwayStore
  readonly #deadlineMs: number
  #policy: GuardedPolicy

  constructor(core: SpillwayStore, deadlineMs: number) {
    this.#core = core
    this.#deadlineMs = deadlineMs
    this.#policy = this.#windowsOf(DEFAULT_WINDOW_MS)
  }

  /** Takes the length of the window from the limiter's options. */
  init({ windowMs }: Pick<Options, 'windowMs'>): void {
    this.windowMs = windowMs
    const window = windowOf(windowMs)
    this.#policy = this.#windowsOf(typeof window === 'number' ? window : DEFAULT_WINDOW_MS)
  }

  /** Counts a request of a key. Rejects with `StoreError`. */
  async increment(key: string): Promise<ClientRateLimitInfo> {
    return this.#increment(key)
  }

  /** Gives one hit back: never below 0; an uncounted key stays uncounted. */
  async decrement(key: string): Promise<void> {
    await this.#policy.change({ verb: 'refund', units: 1 }, String(key))
  }

  /** The count of a key; undefined if nothing is counted. Rejects with `StoreError`. */
  async get(key: string): Promise<ClientRateLimitInfo | undefined> {
    const [verdict] = await this.#policy.verdicts('peek', String(key), 0)
    return verdict.resetAfterMs > 0 ? hitsOf(verdict, Date.now()) : undefined
  }

  /** Deletes the count of a key. Rejects with `StoreError`. */
  async resetKey(key: string): Promise<void> {
    await this.#policy.change({ verb: 'reset', units: 0 }, String(key))
  }

  #windowsOf(windowMs: number): GuardedPolicy {
    const limit = { name: HITS_LIMIT, quota: ENDLESS, windowMs, burst: ENDLESS, algorithm: 'fixed-window' } as const
    return guardedAlone(knownCounts(this.#core)!, [{ limit, limiter: HITS_LIMITER }], this.#deadlineMs)
  }

  #increment(key: string): SyncOrAsync<Client> {
    const { now } = this.#policy
    // An untyped key generator may return a number or nothing: its text is counted, as in express-rate-limit.
    const verdicts = now?.decideNow(String(key), 1)
    if (verdicts !== undefined) return hitsOf(verdicts[0], now!.last.decidedAt)
    return this.#policy.verdicts('consume', String(key), 1).then(([verdict]) => hitsOf(verdict, Date.now()))
  }

  /**
   * The result of any store's `increment`; synchronously, if it is one of these in memory and nobody overrides that.
   *
   * @internal
   */
  static increment(store: Store, key: string): SyncOrAsync<ClientRateLimitInfo> {
    if (store.increment === HitsStore.prototype.increment) return (store as HitsStore).#increment(key)
    // A copy, because the store may change its own object.
    return after(store.increment(key), hits => ({ totalHits: hits.totalHits, resetTime: hits.resetTime }))
  }

  /**
   * What other algorithms need to count here: the underlying store, and its deadline.
   *
   * @internal
   */
  static coreOf(store: object): { readonly store: SpillwayStore; readonly deadline: Duration } | undefined {
    return #core in store ? { store: store.#core, deadline: store.#deadlineMs } : undefined
  }
}

/** The number of hits that a verdict represents. */
function hitsOf({ remaining, resetAfterMs }: Verdict, nowMs: number): Client {
  return { totalHits: ENDLESS - remaining, resetTime: new Date(nowMs + resetAfterMs) }
}
