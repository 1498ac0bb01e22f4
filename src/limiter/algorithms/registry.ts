import { blockedVerdict, type Verdict } from '../core/decision.js'
import type { AlgorithmName, Limit } from '../core/limit.js'
import type { Algorithm } from './algorithm.js'
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

// The arithmetic of a limit on copies: the given state does not change. `undefined` is the state of an unused key.

/**
 * A verdict, and the state after it: spent if allowed, else unchanged (except for corrections after the clock ran
 * back); undefined if nothing in the state counts.
 */
export interface Measured {
  readonly verdict: Verdict
  readonly next: State | undefined
}

/**
 * The verdict on a cost. While the key is blocked, for `blockedMs` more, nothing is spent: the present verdict, with
 * the longer of the two waits.
 */
export function measure(limit: Limit, state: State | undefined, nowMs: number, cost: number, blockedMs = 0): Measured {
  if (blockedMs > 0) {
    const asked = measure(limit, state, nowMs, cost)
    const { verdict, next } = asked.verdict.allowed ? measure(limit, state, nowMs, 0) : asked
    return { verdict: blockedVerdict(verdict, blockedMs), next }
  }
  const algorithm = algorithmOf(limit.algorithm)
  const next = copyOf(algorithm, state)
  const verdict = algorithm.consume(limit, next, nowMs, cost)
  const spent = verdict.allowed && cost > 0
  const gone = state === undefined || algorithm.isOver?.(limit, next, nowMs)
  return { verdict, next: gone && !spent ? undefined : next }
}

/**
 * Measures limits that are decided together: if one refuses, nothing is spent, so a limit that would have allowed the
 * cost reports its present state.
 */
export function measureTogether<One extends { readonly verdict: Verdict }>(
  count: number,
  cost: number,
  measureOne: (index: number, cost: number) => One,
): One[] {
  const measured = Array.from({ length: count }, (_, i) => measureOne(i, cost))
  if (measured.every(({ verdict }) => verdict.allowed)) return measured
  return measured.map((one, i) => (one.verdict.allowed ? measureOne(i, 0) : one))
}

export function copyOf(algorithm: Algorithm<State>, state: State | undefined): State {
  return state === undefined ? algorithm.fresh() : algorithm.copy(state)
}
