import { algorithmOf, type State } from '../../algorithms/registry.js'
import type { Verdict } from '../../core/decision.js'
import { type Limit, mostOf } from '../../core/limit.js'

/** When a cost fits, in ms from now. */
export interface Retry {
  readonly cost: number
  readonly afterMs: number
}

/**
 * The state of a limit, as far as what a store says of it tells: `stands` is its verdict with nothing spent, `retries` say when larger and larger
 * costs fit. The state never allows more than the store would; what was spent in a sliding window is known as finely as the retries are.
 */
export function stateOf(
  { limit, remaining, resetAfterMs }: Verdict,
  retries: readonly Retry[],
  nowMs: number,
): State | undefined {
  if (resetAfterMs === 0) return undefined
  const { spend } = algorithmOf(limit.algorithm)
  const spent = limit.quota - remaining
  switch (limit.algorithm) {
    case 'token-bucket':
    case 'leaky-bucket':
      return { at: nowMs, level: levelOf(limit, resetAfterMs, retries) }
    case 'fixed-window':
      return spend(limit, undefined, nowMs + resetAfterMs - limit.windowMs, spent)
    case 'sliding-counter': {
      // Something was spent in the current cell: as if all of it had been.
      if (resetAfterMs > limit.windowMs) return spend(limit, undefined, nowMs, spent)
      return spend(limit, undefined, nowMs - limit.windowMs, Math.floor((spent * limit.windowMs) / resetAfterMs))
    }
    case 'sliding-window': {
      let state: State | undefined
      let free = remaining
      for (const { cost, afterMs } of [...retries, { cost: limit.quota, afterMs: resetAfterMs }]) {
        if (cost <= free) continue
        state = spend(limit, state, nowMs + afterMs - limit.windowMs, cost - free)
        free = cost
      }
      return state
    }
  }
}

/** The level of a bucket: the moment at which it is empty, or at which a cost fits, tells it to less than a ms of draining. */
function levelOf(limit: Limit, resetAfterMs: number, retries: readonly Retry[]): number {
  const levels = retries
    .filter(({ cost, afterMs }) => afterMs > 0 && cost <= mostOf(limit))
    .map(({ cost, afterMs }) => afterMs * limit.quota + (mostOf(limit) - cost) * limit.windowMs)
  return Math.min(resetAfterMs * limit.quota, ...levels)
}
