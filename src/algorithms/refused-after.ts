import type { Verdict } from '../core/decision.js'
import { mostOf } from '../core/limit.js'
import { algorithmOf } from './registry.js'

/**
 * For how long a cost is refused from this verdict on, with no further traffic, ms; 0 if it is allowed; Infinity if it never fits;
 * undefined if the verdict does not tell to the millisecond.
 */
export function refusedAfter(verdict: Verdict, cost: number): number | undefined {
  const { limit, remaining, resetAfterMs } = verdict
  const most = mostOf(limit)
  if (cost > most) return Number.POSITIVE_INFINITY
  if (remaining >= cost) return 0
  // All of it fits only when nothing is left; and what fits no sooner than that, fits then with any larger cost.
  if (cost === most || verdict.retryAfterMs === resetAfterMs) return resetAfterMs
  return algorithmOf(limit.algorithm).inPlace.refusedAfterMs?.(verdict, cost)
}
