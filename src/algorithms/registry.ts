import type { AlgorithmName } from '../core/limit.js'
import type { Algorithm, RowAlgorithm } from './algorithm.js'
import { fixedWindow } from './fixed-window.js'
import { leakyBucket } from './leaky-bucket.js'
import { slidingCounter } from './sliding-counter.js'
import { slidingWindow } from './sliding-window.js'
import { tokenBucket } from './token-bucket.js'

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
