const SPAN_MS = 10_000
const BUCKETS = 10
const ENOUGH = 20
const PROBE_EVERY_MS = 200
/** Between probes that nobody answers. Each stays in the client's memory until its connection ends. */
const LONGEST_PROBE_MS = 5000

/** What the breaker lets a decision do: ask the store, ask it as a probe, or not at all. */
export type Passage = 'ask' | 'probe' | 'refuse'

/**
 * Stops asking a store that fails: when at least half of at least 20 decisions of the last 10 s failed. From then on one
 * decision every 200 ms goes through as a probe, and the first that succeeds lets all through again. Where probes meet silence
 * they become rarer, up to one in 5 s: whoever is silent answers the earlier ones first when it returns, and that stirs. (After
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

  passage(now: number): Passage {
    if (!this.#open) return 'ask'
    if (now < this.#nextProbeAt) return 'refuse'
    this.#nextProbeAt = now + this.#probeEveryMs
    return 'probe'
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

  /** An answer came too late, but it came: the store is worth a probe now. */
  stir(): void {
    this.#probeEveryMs = PROBE_EVERY_MS
    this.#nextProbeAt = 0
  }

  /** The store, or its client, has at least said no: it need not be asked so rarely. */
  hear(now: number): void {
    this.#probeEveryMs = PROBE_EVERY_MS
    this.#nextProbeAt = Math.min(this.#nextProbeAt, now + PROBE_EVERY_MS)
  }

  /** A deadline passed without an answer. */
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
