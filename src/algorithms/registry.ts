import type { Verdict } from '../core/decision.js'
import { type AlgorithmName, maxCostOf } from '../core/limit.js'
import type { Algorithm, RowAlgorithm } from './algorithm.js'
import { leakyBucket, tokenBucket } from './buckets.js'
import { fixedWindow } from './fixed-window.js'
import { slidingCounter } from './sliding-counter.js'
import { slidingWindow } from './sliding-window.js'

/** The state of a key. Only the algorithm that made a state reads it. */
export type State = object

const ALGORITHMS: Record<AlgorithmName, Algorithm<State>> = {
  'fixed-window': fixedWindow,
  'sliding-window': slidingWindow,
  'sliding-counter': slidingCounter,
  'token-bucket': tokenBucket,
  'leaky-bucket': leakyBucket,
}

export function algorithmOf(name: AlgorithmName): Algorithm<State> {
  return ALGORITHMS[name]
}

export function isRowAlgorithm(algorithm: Algorithm<State>): algorithm is RowAlgorithm<State> {
  return 'row' in algorithm
}

/**
 * How long a cost is refused after this verdict, without further traffic, ms; 0 if it is allowed; Infinity if it never fits;
 * undefined if the verdict does not determine it to the millisecond.
 */
export function refusedAfter(verdict: Verdict, cost: number): number | undefined {
  const { limit, remaining, resetAfterMs } = verdict
  const maxCost = maxCostOf(limit)
  if (cost > maxCost) return Number.POSITIVE_INFINITY
  if (remaining >= cost) return 0
  // The full quota fits only when nothing is spent; a cost that fits no sooner than that fits at the same time as any larger cost.
  if (cost === maxCost || verdict.retryAfterMs === resetAfterMs) return resetAfterMs
  return algorithmOf(limit.algorithm).inPlace.refusedAfterMs?.(verdict, cost)
}
