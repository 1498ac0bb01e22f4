import { getOrMake } from './core/maps.js'
import { CHANNELS, isHeard, notify, type Observer, tell } from './core/observer.js'
import type { Counts } from './port.js'

const SPAN_MS = 10_000
const BUCKETS = 10
const ENOUGH = 20
const PROBE_EVERY_MS = 200
/**
 * A probe of several servers fails if one of them does, and tells nothing of the others: it leaves the first moments to
 * decisions that ask one server alone.
 */
const SHARED_PROBE_LATER_MS = 100
/**
 * Longest interval between probes without an answer: each of them occupies memory in the client until its connection
 * ends.
 */
const LONGEST_PROBE_MS = 5000

/**
 * Stops asking a failing store: it opens when 20 calls in a row failed, or at least half of at least 20 calls of the
 * last 10 s. (A server that hangs after much traffic has a long row of successes behind it.) While it is open, one
 * decision every 200 ms goes through as a probe; the first successful probe closes it. Probes without an answer become
 * rarer, up to one in 5 s: a store that returns answers the earlier probes first, and such an answer allows the next
 * probe at once. (After the circuit breaker of M. Nygard, Release It!, 2007.)
 */
export class CircuitBreaker {
  readonly #failed = new Uint32Array(BUCKETS)
  readonly #succeeded = new Uint32Array(BUCKETS)
  #newest = 0
  /** Failures since the last success. */
  #inARow = 0
  /** Only the breaker itself changes it. A plain field, because every decision looks at it. */
  isOpen = false
  #nextProbeAt = 0
  #probeEveryMs = PROBE_EVERY_MS
  /** Whether the last probe may still be without an answer. */
  #isProbing = false

  /** Whether the last call failed. */
  get hasFailed(): boolean {
    return this.#inARow > 0
  }

  /** Whether it would admit a decision now. `isShared`: one that other open breakers must admit, too. */
  isDue(now: number, isShared: boolean): boolean {
    return !this.isOpen || now >= this.#nextProbeAt + (isShared ? SHARED_PROBE_LATER_MS : 0)
  }

  /**
   * Whether a decision may ask the store. While the breaker is open, one decision becomes the probe and the others must
   * wait.
   */
  admits(now: number): boolean {
    if (!this.isOpen) return true
    if (now < this.#nextProbeAt) return false
    this.#nextProbeAt = now + this.#probeEveryMs
    this.#isProbing = true
    return true
  }

  /** True if this success closed the breaker. */
  succeed(now: number): boolean {
    this.#succeeded[this.#bucketAt(now)]++
    this.#inARow = 0
    if (!this.isOpen) return false
    this.isOpen = false
    this.#failed.fill(0)
    this.#succeeded.fill(0)
    return true
  }

  /** True if this failure opened the breaker. */
  fail(now: number): boolean {
    this.#failed[this.#bucketAt(now)]++
    this.#inARow++
    if (this.isOpen) return false
    const failed = sum(this.#failed)
    const all = failed + sum(this.#succeeded)
    if (this.#inARow < ENOUGH && (all < ENOUGH || failed * 2 < all)) return false
    this.isOpen = true
    this.#isProbing = false
    this.#probeEveryMs = PROBE_EVERY_MS
    this.#nextProbeAt = now + PROBE_EVERY_MS
    return true
  }

  /** An answer came after its deadline: the next decision may probe the store. */
  answeredLate(): void {
    this.#probeEveryMs = PROBE_EVERY_MS
    this.#nextProbeAt = 0
  }

  /** The store or its client refused a call: it is reachable, so probes return to one in 200 ms. */
  refused(now: number): void {
    this.#probeEveryMs = PROBE_EVERY_MS
    this.#nextProbeAt = Math.min(this.#nextProbeAt, now + PROBE_EVERY_MS)
  }

  /** A call got no answer within its deadline: after each probe the next one comes later. */
  unanswered(): void {
    if (this.#isProbing) this.#probeEveryMs = Math.min(this.#probeEveryMs * 2, LONGEST_PROBE_MS)
    this.#isProbing = false
  }

  #bucketAt(now: number): number {
    const tick = Math.floor(now / (SPAN_MS / BUCKETS))
    const passed = Math.min(BUCKETS, tick - this.#newest)
    for (let i = 0; i < passed; i++) {
      this.#failed[(tick - i) % BUCKETS] = 0
      this.#succeeded[(tick - i) % BUCKETS] = 0
    }
    if (passed > 0) this.#newest = tick
    return tick % BUCKETS
  }
}

function sum(buckets: Uint32Array): number {
  let total = 0
  for (const count of buckets) total += count
  return total
}

/** Above this number of observers, those that were garbage collected are removed. */
const FEW = 64

/**
 * The observers of a store's breakers: all observers of its limiters, not only that of the limiter with the last
 * failure. Each observer that receives `breakerOpened` also receives `breakerClosed`, so that a count of open breakers
 * returns to 0.
 */
class BreakerObservers {
  /** Weak, so that a store does not keep the observers of limiters that are no longer used. */
  #members: Array<WeakRef<Observer>> = []
  readonly #known = new WeakSet<Observer>()
  readonly #informed = new WeakMap<CircuitBreaker, readonly Observer[]>()
  #pruneAt = FEW

  join(observer: Observer): void {
    if (this.#known.has(observer)) return
    this.#known.add(observer)
    this.#members.push(new WeakRef(observer))
    if (this.#members.length < this.#pruneAt) return
    this.#members = this.#members.filter(member => member.deref() !== undefined)
    this.#pruneAt = Math.max(FEW, 2 * this.#members.length)
  }

  opened(breaker: CircuitBreaker, error: Error): void {
    const members = this.#members.map(member => member.deref()).filter(observer => observer !== undefined)
    const informed = [...members, CHANNELS]
    this.#informed.set(breaker, informed)
    for (const observer of informed) tell(observer, 'breakerOpened', error)
  }

  closed(breaker: CircuitBreaker): void {
    const informed = this.#informed.get(breaker) ?? []
    this.#informed.delete(breaker)
    for (const observer of informed) tell(observer, 'breakerClosed')
  }
}

/**
 * The circuit breakers of a store under one deadline: one for each server, so that a hanging server affects neither the
 * other servers nor limiters with a longer deadline. Limiters with the same store and deadline share them.
 */
export class CircuitBreakers {
  readonly observers = new BreakerObservers()
  readonly #byServer = new Map<string, CircuitBreaker>()

  /** The breaker, if there is one server. */
  readonly only: CircuitBreaker | undefined

  constructor(counts?: Counts) {
    if (counts?.serverOf === undefined) this.only = new CircuitBreaker()
  }

  static of(counts: Counts, deadlineMs: number): CircuitBreakers {
    const byDeadline = getOrMake(BREAKERS, counts, () => new Map())
    return getOrMake(byDeadline, deadlineMs, () => new CircuitBreakers(counts))
  }

  of(server: string): CircuitBreaker {
    return getOrMake(this.#byServer, server, () => new CircuitBreaker())
  }
}

const BREAKERS = new WeakMap<Counts, Map<number, CircuitBreakers>>()

/** Reports how long a store took: once for all decisions of one answer. */
export class AnswerTimes {
  #decisions = 0
  #askedAt = 0
  #answeredAt = 0

  constructor(readonly observer: Observer | undefined) {}

  /**
   * A call was answered, with one decision or none. The decisions of one answer are reported at the same moment, the
   * earliest asked first.
   */
  answered(askedAt: number, answeredAt: number, decisions: 0 | 1): void {
    if (!isHeard(this.observer, 'storeAnswered')) return
    if (decisions === 0) {
      this.#report(askedAt, answeredAt, 0)
      return
    }
    if (this.#decisions > 0 && answeredAt === this.#answeredAt) {
      this.#decisions++
      return
    }
    if (this.#decisions > 0) this.#reportDecisions()
    else queueMicrotask(() => this.#reportDecisions())
    this.#decisions = 1
    this.#askedAt = askedAt
    this.#answeredAt = answeredAt
  }

  #reportDecisions(): void {
    if (this.#decisions === 0) return
    const decisions = this.#decisions
    this.#decisions = 0
    this.#report(this.#askedAt, this.#answeredAt, decisions)
  }

  #report(askedAt: number, answeredAt: number, decisions: number): void {
    notify(this.observer, 'storeAnswered', { durationMs: Math.max(0, answeredAt - askedAt), decisions })
  }
}
