import type { Verdict } from '../core/decision.js'
import { mostOf } from '../core/limit.js'
import { algorithmOf } from './registry.js'

/**
 * How long a cost is refused after this verdict, without further traffic, ms; 0 if it is allowed; Infinity if it never fits;
 * undefined if the verdict does not determine it to the millisecond.
 */
export function refusedAfter(verdict: Verdict, cost: number): number | undefined {
  const { limit, remaining, resetAfterMs } = verdict
  const most = mostOf(limit)
  if (cost > most) return Number.POSITIVE_INFINITY
  if (remaining >= cost) return 0
  // The full quota fits only when nothing is spent; a cost that fits no sooner than that fits at the same time as any larger cost.
  if (cost === most || verdict.retryAfterMs === resetAfterMs) return resetAfterMs
  return algorithmOf(limit.algorithm).inPlace.refusedAfterMs?.(verdict, cost)
}
