import { after, isPromise, type SyncOrAsync } from '../../http/sync-or-async.js'
import type { Decision } from '../../limiter/core/decision.js'
import { StoreError } from '../../limiter/core/errors.js'
import { OutageWarnings } from '../../limiter/core/warnings.js'
import type { Standing } from '../../limiter/port.js'
import { change, RateLimiter } from '../../limiter/rate-limiter.js'
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
 * Points of keys, in fixed windows of two `RateLimiter`s: one counts the keys that began in the limiter's own duration,
 * the other those that began in any other duration, each of them until its own end. A block is a block of the first.
 * Synchronous over a memory store; else rejects with `StoreError` when the store fails or does not answer within the
 * deadline.
 */
export class Points {
  readonly #store: Store
  readonly #deadlineMs: number
  readonly #ownWindow: number
  readonly #own: RateLimiter
  /** Made when a key is to be counted in another duration. */
  #others: RateLimiter | undefined
  /** Whether calls look for a key among the others, too: only from then on, because it costs a question. */
  #seeksOthers = false
  readonly #warnings: OutageWarnings
  #failure: Error | undefined

  /** `durationMs`: the limiter's own; 0: without end. `meanwhile`: what happens during an outage, for warnings. */
  constructor(store: Store, durationMs: number, deadlineMs: number, meanwhile: string) {
    this.#store = store
    this.#deadlineMs = deadlineMs
    this.#ownWindow = windowOf(durationMs)
    this.#own = this.#limiterOf(this.#ownWindow)
    this.#warnings = new OutageWarnings(store, () => 'rate-limiter-flexible: its store', meanwhile)
  }

  /**
   * Counts points, whether or not the key has them, in the duration in which it is counted already; else in this one.
   * A blocked key keeps its count.
   */
  add(key: string, points: number, durationMs: number): SyncOrAsync<Count> {
    return after(this.#find(key, durationMs), found => {
      if (!(found instanceof RateLimiter)) return found
      return found === this.#own ? this.#ask(found, key, points) : this.#begin(found, key, points, durationMs)
    })
  }

  /** Gives points back, at most those that are consumed. */
  take(key: string, points: number, durationMs: number): SyncOrAsync<Count> {
    return after(this.#find(key, durationMs), async found => {
      if (!(found instanceof RateLimiter)) return found
      await found.refund(key, points)
      return this.#ask(found, key, 0)
    })
  }

  /** What is known of a key, under any duration if this process has named one. */
  look(key: string): SyncOrAsync<Count> {
    return after(this.#askAll(key), together)
  }

  /** Counts points of a new key, in a duration that ends in so many ms. Over a memory store at once. */
  begin(key: string, points: number, ms: number): SyncOrAsync<Count> {
    if (windowOf(ms) <= this.#ownWindow) return this.#begin(this.#own, key, points, ms)
    this.#seeksOthers = true
    return this.#begin(this.#other(), key, points, ms)
  }

  /** Blocks a key, and forgets its count but for `consumed`, which ends with the block. Over a memory store at once. */
  async block(key: string, ms: number, consumed: number): Promise<void> {
    const other = this.#other()
    const resets = [this.#own.reset(key), other.reset(key)]
    const record = consumed > 0 ? this.#begin(other, key, consumed, ms) : undefined
    await Promise.all([...resets, record, this.#own.block(key, windowOf(ms))])
  }

  /** Forgets a key, and its block. */
  async forget(key: string): Promise<void> {
    await Promise.all([this.#own.unblock(key), this.#own.reset(key), this.#other().reset(key)])
  }

  /** The limiter which is to count a key, or the key's count if it is blocked. */
  #find(key: string, durationMs: number): SyncOrAsync<RateLimiter | Count> {
    const isOwn = windowOf(durationMs) === this.#ownWindow
    if (!isOwn) this.#seeksOthers = true
    if (!this.#seeksOthers) return this.#own
    const other = this.#other()
    return after(this.#askAll(key), ([own, others]) => {
      if (own.isBlocked) return own
      return others.msLeft > 0 || (own.msLeft === 0 && !isOwn) ? other : this.#own
    })
  }

  #other(): RateLimiter {
    this.#others ??= this.#limiterOf(FOREVER_MS)
    return this.#others
  }

  #limiterOf(window: number): RateLimiter {
    return new RateLimiter({
      policy: { quota: MOST_POINTS, window: `${window}ms`, algorithm: 'fixed-window', name: 'points' },
      name: 'rate-limiter-flexible',
      store: this.#store,
      deadline: this.#deadlineMs,
      onStoreFailure: 'closed',
      // Only blocks refuse, and the class remembers those itself if it is to.
      denyCache: false,
      observer: { storeFailed: error => this.#failed(error), storeAnswered: () => this.#warnings.answered() },
    })
  }

  /** Counts points in one step: in the window that runs, or in one that ends in so many ms. */
  #begin(limiter: RateLimiter, key: string, points: number, ms: number): SyncOrAsync<Count> {
    if (points === 0) return this.#ask(limiter, key, 0)
    let count: Count | undefined
    const answered = (standing?: Standing) => {
      if (standing !== undefined) count = countOf(standing.limits[0])
    }
    const charged = change(limiter, key, { verb: 'charge', units: points, lastsMs: windowOf(ms), answered })
    return count ?? charged.then(() => count ?? this.#ask(limiter, key, 0))
  }

  #ask(limiter: RateLimiter, key: string, points: number): SyncOrAsync<Count> {
    return after(limiter.decide(key, points), this.#read)
  }

  /** What the limiters know of a key: the own first. */
  #askAll(key: string): SyncOrAsync<Count[]> {
    const limiters = this.#others === undefined ? [this.#own] : [this.#own, this.#others]
    const counts = limiters.map(limiter => this.#ask(limiter, key, 0))
    return counts.some(isPromise) ? Promise.all(counts) : (counts as Count[])
  }

  #failed(error: Error): void {
    this.#failure = error
    this.#warnings.failed(error)
  }

  readonly #read = (decision: Decision): Count => {
    if (!decision.degraded) return countOf(decision)
    const cause = this.#failure
    throw new StoreError(`the store failed, or is closed: ${cause?.message ?? 'it did not answer'}`, { cause })
  }
}

type Left = Standing['limits'][number] & Partial<Pick<Decision, 'retryAfterMs' | 'blocked'>>

function countOf({ remaining, resetAfterMs, retryAfterMs = 0, blocked }: Left): Count {
  const ms = blocked ? retryAfterMs : resetAfterMs
  return {
    consumed: MOST_POINTS - remaining,
    msLeft: ms > FOREVER_MS / 2 ? Number.POSITIVE_INFINITY : ms,
    isBlocked: blocked === true,
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
