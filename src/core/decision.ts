import type { Limit } from './limit.js'

/** What one limit says of one request. Durations count from the moment of the decision, in whole ms, never negative. */
export interface Verdict {
  readonly limit: Limit
  readonly allowed: boolean
  /** Units left for this key after the decision: spent if the whole decision was allowed, as it is if it was denied. */
  readonly remaining: number
  /** 0 when allowed. Denied: the same request is denied until then and, unrivalled, allowed at then. Infinity: never fits. */
  readonly retryAfterMs: number
  /** Until the key is as if never used (bucket full, log empty, window over), with no further traffic. */
  readonly resetAfterMs: number
  /** leaky-bucket: wait this long before proceeding; else 0. */
  readonly delayMs: number
  /** True when the key is denied because it was blocked (`RateLimiter.block`), whatever it has spent. */
  readonly blocked?: true
}

/** Who gave the answer: the store, a denial remembered in process, or the failure policy. */
export type DecisionSource = 'memory' | 'redis' | 'deny-cache' | 'fallback' | 'open' | 'closed'

/** The strictest verdict (denied: the longest wait; allowed: the least remaining), all verdicts behind it, and who gave the answer. */
export interface Decision extends Verdict {
  readonly key: string
  readonly cost: number
  readonly verdicts: readonly Verdict[]
  readonly source: DecisionSource
  /** True when the store did not answer and the failure policy did. */
  readonly degraded: boolean
}

/**
 * The verdict that speaks for all: a denial before any permission, among denials the longest wait, among permissions the
 * least remaining. The first one wins a tie.
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

/** The same verdict of a key that is blocked for so long. What can never fit has no use for a block. */
export function blockedVerdict(verdict: Verdict, forMs: number): Verdict {
  if (verdict.retryAfterMs === Number.POSITIVE_INFINITY) return verdict
  return { ...verdict, allowed: false, retryAfterMs: Math.max(verdict.retryAfterMs, forMs), delayMs: 0, blocked: true }
}
