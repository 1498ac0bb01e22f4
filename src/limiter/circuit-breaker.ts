const SPAN_MS = 10_000
const BUCKETS = 10
const ENOUGH = 20
const PROBE_EVERY_MS = 200
/** Longest interval between probes without an answer: each of them occupies memory in the client until its connection ends. */
const LONGEST_PROBE_MS = 5000

/**
 * Stops asking a failing store: it opens when 20 calls in a row failed, or at least half of at least 20 calls of the last 10 s. (A server that hangs after much traffic has
 * a long row of successes behind it.) While it is open, one decision every 200 ms goes through as a probe; the first successful probe closes it. Probes without an answer
 * become rarer, up to one in 5 s: a store that returns answers the earlier probes first, and such an answer allows the next probe at once. (After
 * the circuit breaker of M. Nygard, Release It!, 2007.)
 */
export class CircuitBreaker {
  readonly #failed = new Uint32Array(BUCKETS)
  readonly #succeeded = new Uint32Array(BUCKETS)
  #newest = 0
  /** Failures since the last success. */
  #inARow = 0
  #open = false
  #nextProbeAt = 0
  #probeEveryMs = PROBE_EVERY_MS

  get isOpen(): boolean {
    return this.#open
  }

  /** Whether a decision may ask the store. While the breaker is open, one decision becomes the probe and the others must wait. */
  admits(now: number): boolean {
    if (!this.#open) return true
    if (now < this.#nextProbeAt) return false
    this.#nextProbeAt = now + this.#probeEveryMs
    return true
  }

  /** True if this success closed the breaker. */
  succeed(now: number): boolean {
    this.#succeeded[this.#bucketAt(now)]++
    this.#inARow = 0
    if (!this.#open) return false
    this.#open = false
    this.#failed.fill(0)
    this.#succeeded.fill(0)
    return true
  }

  /** True if this failure opened the breaker. */
  fail(now: number): boolean {
    this.#failed[this.#bucketAt(now)]++
    this.#inARow++
    if (this.#open) return false
    const failed = sum(this.#failed)
    const all = failed + sum(this.#succeeded)
    if (this.#inARow < ENOUGH && (all < ENOUGH || failed * 2 < all)) return false
    this.#open = true
    this.#probeEveryMs = PROBE_EVERY_MS
    this.#nextProbeAt = now + PROBE_EVERY_MS
    return true
  }

  /** An answer came after its deadline: the next decision may probe the store. */
  probeNow(): void {
    this.#probeEveryMs = PROBE_EVERY_MS
    this.#nextProbeAt = 0
  }

  /** The store or its client refused a probe: it is reachable, so probes return to one in 200 ms. */
  hear(now: number): void {
    this.#probeEveryMs = PROBE_EVERY_MS
    this.#nextProbeAt = Math.min(this.#nextProbeAt, now + PROBE_EVERY_MS)
  }

  /** A probe got no answer within its deadline: the next probe comes later. */
  silence(): void {
    if (this.#open) this.#probeEveryMs = Math.min(this.#probeEveryMs * 2, LONGEST_PROBE_MS)
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
