import type { Limit } from './limit.js'

/**
 * The verdict of one limit on one request. Durations count from the moment of the decision, in whole ms, never
 * negative.
 */
export interface Verdict {
  /** The limit of this verdict. */
  readonly limit: Limit
  /** Whether the cost fits under this limit. A request is allowed if every limit allows it. */
  readonly allowed: boolean
  /** Units left for this key, ≥ 0. An allowed decision has already spent its units; a denied one has spent none. */
  readonly remaining: number
  /**
   * Ms until the same request fits: refused before, allowed then if nothing else is spent meanwhile. 0 when allowed.
   * Infinity: never fits.
   */
  readonly retryAfterMs: number
  /**
   * Ms until the key is as if never used, without further traffic: bucket full, log empty, window over. 0: it already
   * is.
   */
  readonly resetAfterMs: number
  /** Ms that an allowed request must wait before it goes on, under `leaky-bucket`; else 0. */
  readonly delayMs: number
  /** True when the key is denied because it is blocked (`RateLimiter.block`), regardless of what it has spent. */
  readonly blocked?: true
}

/** The verdict of a limit: it allows the request if there is nothing to wait for. */
export function verdictOf(
  limit: Limit,
  remaining: number,
  retryAfterMs: number,
  resetAfterMs: number,
  delayMs = 0,
): Verdict {
  return { limit, allowed: retryAfterMs === 0, remaining, retryAfterMs, resetAfterMs, delayMs }
}

/**
 * The source of the answer: the store (`memory`, `redis`, `postgres`, `sqlite`; a store of your own that answers by
 * promises counts as `redis`, another as `memory`), units that the process bought in advance (`lease`), a denial that
 * the process remembers (`deny-cache`), or the failure policy (`fallback`, `open`, `closed`).
 */
export type DecisionSource = StoreSource | 'lease' | 'deny-cache' | 'fallback' | 'open' | 'closed'
export type StoreSource = 'memory' | 'redis' | 'postgres' | 'sqlite'

/**
 * The strictest verdict (denied: the longest wait; allowed: the least remaining), all verdicts behind it, and the
 * source of the answer.
 */
export interface Decision extends Verdict {
  /** The key. For a record of keys: the key of `limit`. */
  readonly key: string
  /** Requested units. */
  readonly cost: number
  /** The verdict of each limit, in the order of the policy. */
  readonly verdicts: readonly Verdict[]
  /** The source of the answer. */
  readonly source: DecisionSource
  /** True when the store did not answer, so that the failure policy decided. */
  readonly degraded: boolean
  /** True when the limits refuse the request but the limiter lets it through, because it is in shadow mode. */
  readonly shadow: boolean
}

/**
 * The verdict of the whole decision: a denial before an allowed verdict; among denials the longest wait; among allowed
 * verdicts the least remaining. The first one wins a tie.
 */
export function strictest(verdicts: readonly Verdict[]): Verdict {
  let strict = verdicts[0]
  for (let i = 1; i < verdicts.length; i++) if (isStricter(verdicts[i], strict)) strict = verdicts[i]
  return strict
}

function isStricter(a: Verdict, b: Verdict): boolean {
  if (a.allowed !== b.allowed) return b.allowed
  return a.allowed ? a.remaining < b.remaining : a.retryAfterMs > b.retryAfterMs
}

/** The verdict of a key that is blocked for `forMs`. A verdict whose cost can never fit stays as it is. */
export function blockedVerdict<Blocked extends Verdict>(verdict: Blocked, forMs: number): Blocked {
  if (verdict.retryAfterMs === Number.POSITIVE_INFINITY) return verdict
  return { ...verdict, allowed: false, retryAfterMs: Math.max(verdict.retryAfterMs, forMs), delayMs: 0, blocked: true }
}
