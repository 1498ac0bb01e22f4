import type { AlgorithmName } from '../core/limit.js'
import type { Algorithm, RowAlgorithm } from './algorithm.js'
import type { Bucket } from './bucket.js'
import { type FixedWindow, fixedWindow } from './fixed-window.js'
import { leakyBucket } from './leaky-bucket.js'
import { type CellPair, slidingCounter } from './sliding-counter.js'
import { type SpendLog, slidingWindow } from './sliding-window.js'
import { tokenBucket } from './token-bucket.js'

export type State = FixedWindow | SpendLog | CellPair | Bucket

const ALGORITHMS: Record<AlgorithmName, Algorithm<State>> = {
  'fixed-window': fixedWindow,
  'sliding-window': slidingWindow,
  'sliding-counter': slidingCounter,
  'token-bucket': tokenBucket,
  'leaky-bucket': leakyBucket,
}

/** The arithmetic of a name. State is only ever handed back to the algorithm that made it. */
export function algorithmOf(name: AlgorithmName): Algorithm<State> {
  return ALGORITHMS[name]
}

export function isRowAlgorithm(algorithm: Algorithm<State>): algorithm is RowAlgorithm<State> {
  return 'row' in algorithm
}

/** True for algorithms that can tell one who waits his turn. */
export function canBook(name: AlgorithmName): boolean {
  return ALGORITHMS[name].book !== undefined
}
