import type { Verdict } from '../core/decision.js'
import { mostOf } from '../core/limit.js'

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
  if (limit.algorithm === 'fixed-window') return resetAfterMs
  if (limit.algorithm !== 'token-bucket' && limit.algorithm !== 'leaky-bucket') return undefined
  // A bucket that is empty in resetAfterMs has room for `cost` when what else it holds has yet to drain. Its level is known in whole
  // ms of draining only: so that must be a whole number of them too.
  const restMs = ((most - cost) * limit.windowMs) / limit.quota
  return Number.isInteger(restMs) ? resetAfterMs - restMs : undefined
}
