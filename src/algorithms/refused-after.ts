import type { Verdict } from '../core/decision.js'
import { mostOf } from '../core/limit.js'

/**
 * For how long the same request would be refused right after this permission, ms; 0 if it would be allowed; undefined if the verdict
 * does not tell to the millisecond.
 */
export function refusedAfter({ limit, remaining, resetAfterMs }: Verdict, cost: number): number | undefined {
  if (remaining >= cost) return 0
  if (limit.algorithm === 'fixed-window') return resetAfterMs
  if (limit.algorithm !== 'token-bucket' && limit.algorithm !== 'leaky-bucket') return undefined
  // A bucket that is empty in resetAfterMs has room for `cost` when what else it holds has yet to drain. Its level is known in whole
  // ms of draining only: so that must be a whole number of them too.
  const restMs = ((mostOf(limit) - cost) * limit.windowMs) / limit.quota
  return Number.isInteger(restMs) ? resetAfterMs - restMs : undefined
}
