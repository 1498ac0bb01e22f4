import { after, isPromise, type SyncOrAsync } from '../../http/sync-or-async.js'
import type { Decision } from '../../limiter/core/decision.js'
import { StoreError } from '../../limiter/core/errors.js'
import { getOrMake } from '../../limiter/core/maps.js'
import { OutageWarnings } from '../../limiter/core/warnings.js'
import { RateLimiter } from '../../limiter/rate-limiter.js'
import type { Store } from '../../limiter/store.js'

/** The longest window: a duration of 0 never ends. */
const FOREVER_MS = 3_650_000 * 86_400_000
/** More than a key can consume: no call is refused by its window, so that refused calls are counted too. */
const MOST_POINTS = 2 ** 53 - 1024

/** What is known of a key. */
export interface Count {
  readonly consumed: number
  /** Until the duration or the block ends; 0: nothing is known of the key. May be Infinity. */
  readonly msLeft: number
  readonly isBlocked: boolean
}

/**
 * Points of keys: a fixed window of a `RateLimiter` for each duration. A block is a block of the limiter. Synchronous
 * over a memory store; else rejects with `StoreError` when the store fails or does not answer within the deadline.
 */
export class Points {
  readonly #store: Store
  readonly #deadlineMs: number
  /** By their windows, ms. */
  readonly #limiters = new Map<number, RateLimiter>()
  /** The windows in which keys are counted: that of the limiter's duration, and those that calls have named. */
  readonly #counting = new Set<number>()
  readonly #warnings: OutageWarnings
  #failure: Error | undefined

  /** `meanwhile`: what happens during an outage, for warnings. */
  constructor(store: Store, deadlineMs: number, meanwhile: string) {
    this.#store = store
    this.#deadlineMs = deadlineMs
    this.#warnings = new OutageWarnings(store, () => 'rate-limiter-flexible: its store', meanwhile)
  }

  /**
   * Counts points, whether or not the key has them, in the duration in which it is counted already; else in this one.
   * A blocked key keeps its count. `ownMs`: the limiter's own duration.
   */
  add(key: string, points: number, durationMs: number, ownMs: number): SyncOrAsync<Count> {
    return after(this.#windowOf(key, durationMs, ownMs), window =>
      typeof window === 'number' ? this.#ask(key, points, window) : window,
    )
  }

  /** Gives points back, at most those that are consumed. */
  take(key: string, points: number, durationMs: number, ownMs: number): SyncOrAsync<Count> {
    return after(this.#windowOf(key, durationMs, ownMs), async window => {
      if (typeof window !== 'number') return window
      await this.#of(window).refund(key, points)
      return this.#ask(key, 0, window)
    })
  }

  /** What is known of a key, under any duration that was used in this process. */
  look(key: string, ownMs: number): SyncOrAsync<Count> {
    this.#of(windowOf(ownMs))
    return after(this.#askAll(key, this.#limiters.keys()), together)
  }

  /** Blocks a key, and forgets its count but for `consumed`, which ends with the block. Over a memory store at once. */
  async block(key: string, ms: number, consumed: number, ownMs: number): Promise<void> {
    const window = windowOf(ms)
    this.#of(windowOf(ownMs))
    const record = consumed > 0 ? this.#of(window) : undefined
    const changes = this.#all(limiter => [limiter.reset(key), limiter.block(key, window)])
    await Promise.all([...changes, record?.charge(key, consumed)])
  }

  /** Forgets a key, and its block. */
  async forget(key: string, ownMs: number): Promise<void> {
    this.#of(windowOf(ownMs))
    await Promise.all(this.#all(limiter => [limiter.unblock(key), limiter.reset(key)]))
  }

  /** The window in which a key is to be counted, or its count if it is blocked. */
  #windowOf(key: string, durationMs: number, ownMs: number): SyncOrAsync<number | Count> {
    const asked = windowOf(durationMs)
    this.#counting.add(windowOf(ownMs)).add(asked)
    if (this.#counting.size === 1) return asked
    const windows = [...this.#counting]
    return after(this.#askAll(key, windows), counts => {
      const blocked = counts.find(({ isBlocked }) => isBlocked)
      return blocked ?? windows[counts.findIndex(({ msLeft }) => msLeft > 0)] ?? asked
    })
  }

  #all(change: (limiter: RateLimiter) => Promise<void>[]): Promise<void>[] {
    return [...this.#limiters.values()].flatMap(change)
  }

  #of(window: number): RateLimiter {
    return getOrMake(
      this.#limiters,
      window,
      () =>
        new RateLimiter({
          policy: { quota: MOST_POINTS, window, algorithm: 'fixed-window', name: 'points' },
          name: 'rate-limiter-flexible',
          store: this.#store,
          deadline: this.#deadlineMs,
          onStoreFailure: 'closed',
          // Only blocks refuse, and the class remembers those itself if it is to.
          denyCache: false,
          observer: { storeFailed: error => this.#failed(error), storeAnswered: () => this.#warnings.answered() },
        }),
    )
  }

  #ask(key: string, points: number, window: number): SyncOrAsync<Count> {
    return after(this.#of(window).decide(key, points), this.#read)
  }

  #askAll(key: string, windows: Iterable<number>): SyncOrAsync<Count[]> {
    const counts = Array.from(windows, window => this.#ask(key, 0, window))
    return counts.some(isPromise) ? Promise.all(counts) : (counts as Count[])
  }

  #failed(error: Error): void {
    this.#failure = error
    this.#warnings.failed(error)
  }

  readonly #read = (decision: Decision): Count => {
    const { degraded, remaining, resetAfterMs, retryAfterMs, blocked = false } = decision
    if (degraded) {
      const cause = this.#failure
      throw new StoreError(`the store failed, or is closed: ${cause?.message ?? 'it did not answer'}`, { cause })
    }
    const ms = blocked ? retryAfterMs : resetAfterMs
    return {
      consumed: MOST_POINTS - remaining,
      msLeft: ms > FOREVER_MS / 2 ? Number.POSITIVE_INFINITY : ms,
      isBlocked: blocked,
    }
  }
}

function windowOf(ms: number): number {
  return ms > 0 ? Math.min(Math.ceil(ms), FOREVER_MS) : FOREVER_MS
}

/** What is known of a key that may stand under several durations. */
function together(counts: readonly Count[]): Count {
  const isBlocked = counts.some(count => count.isBlocked)
  const lasting = counts.filter(count => count.isBlocked === isBlocked).map(({ msLeft }) => msLeft)
  return { consumed: Math.max(...counts.map(({ consumed }) => consumed)), msLeft: Math.max(...lasting), isBlocked }
}
