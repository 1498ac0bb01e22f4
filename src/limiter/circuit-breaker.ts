const SPAN_MS = 10_000
const BUCKETS = 10
const ENOUGH = 20
const PROBE_EVERY_MS = 200
/** Longest interval between probes that get no answer: each of them stays in the client's memory until its connection ends. */
const LONGEST_PROBE_MS = 5000

/**
 * Stops asking a store that fails: when at least half of at least 20 decisions of the last 10 s failed. From then on one
 * decision every 200 ms goes through as a probe, and the first that succeeds lets all through again. Probes that get no answer
 * become rarer, up to one in 5 s: a store that returns answers the earlier probes first, which allows the next one at once. (After
 * the circuit breaker of M. Nygard, Release It!, 2007.)
 */
export class CircuitBreaker {
  readonly #failed = new Uint32Array(BUCKETS)
  readonly #succeeded = new Uint32Array(BUCKETS)
  #newest = 0
  #open = false
  #nextProbeAt = 0
  #probeEveryMs = PROBE_EVERY_MS

  get isOpen(): boolean {
    return this.#open
  }

  /** Whether a decision may ask the store. While the breaker is open, the one that may is the probe, and the next has to wait. */
  admits(now: number): boolean {
    if (!this.#open) return true
    if (now < this.#nextProbeAt) return false
    this.#nextProbeAt = now + this.#probeEveryMs
    return true
  }

  /** True if this success closed the breaker. */
  succeed(now: number): boolean {
    this.#succeeded[this.#bucketAt(now)]++
    if (!this.#open) return false
    this.#open = false
    this.#failed.fill(0)
    this.#succeeded.fill(0)
    return true
  }

  /** True if this failure opened the breaker. */
  fail(now: number): boolean {
    this.#failed[this.#bucketAt(now)]++
    if (this.#open) return false
    const failed = sum(this.#failed)
    const all = failed + sum(this.#succeeded)
    if (all < ENOUGH || failed * 2 < all) return false
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

  /** The store or its client refused a probe: it is not silent, so probes go back to one in 200 ms. */
  hear(now: number): void {
    this.#probeEveryMs = PROBE_EVERY_MS
    this.#nextProbeAt = Math.min(this.#nextProbeAt, now + PROBE_EVERY_MS)
  }

  /** The deadline of a probe passed without an answer: the next probe comes later. */
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
