import { blockedVerdict, type Verdict } from '../core/decision.js'
import { type AlgorithmName, type Limit, maxCostOf } from '../core/limit.js'
import type { Algorithm } from './algorithm.js'
import { leakyBucket, tokenBucket } from './buckets.js'
import { fixedWindow } from './fixed-window.js'
import { newNote, type RefundNote } from './refund-note.js'
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

/** The state as a list of numbers, and back. */
export function pack(algorithm: Algorithm<State>, state: State): number[] {
  const { row } = algorithm
  if (row === undefined) return algorithm.pack!(state)
  row.write(CELLS, 0, state)
  const numbers: number[] = []
  for (let i = 0; i < row.width; i++) numbers.push(CELLS[i])
  return numbers
}

/** For one row at a time. */
const CELLS = new Float64Array(Math.max(...Object.values(ALGORITHMS).map(({ row }) => row?.width ?? 0)))

export function unpack(algorithm: Algorithm<State>, numbers: readonly number[]): State {
  return algorithm.row?.read(Float64Array.from(numbers), 0) ?? algorithm.unpack!(numbers)
}

/** Spends even what does not fit. */
export function spend(limit: Limit, state: State | undefined, nowMs: number, cost: number): State | undefined {
  if (cost === 0) return state
  const algorithm = algorithmOf(limit.algorithm)
  const next = copyOf(algorithm, state)
  algorithm.spend(limit, next, nowMs, cost)
  return next
}

export function refund(
  limit: Limit,
  state: State | undefined,
  nowMs: number,
  cost: number,
  note: RefundNote = newNote(),
): State | undefined {
  const algorithm = algorithmOf(limit.algorithm)
  if (state === undefined || algorithm.isOver?.(limit, state, nowMs)) return undefined
  if (cost === 0) return state
  const next = algorithm.copy(state)
  algorithm.refund(limit, next, nowMs, cost, note)
  return next
}

export function copyOf(algorithm: Algorithm<State>, state: State | undefined): State {
  return state === undefined ? algorithm.fresh() : algorithm.copy(state)
}

/**
 * How long a cost is refused after this verdict, without further traffic, ms; 0 if it is allowed; Infinity if it never
 * fits; undefined if the verdict does not determine it to the millisecond.
 */
export function refusedAfter(verdict: Verdict, cost: number): number | undefined {
  const { limit, remaining, resetAfterMs } = verdict
  const maxCost = maxCostOf(limit)
  if (cost > maxCost) return Number.POSITIVE_INFINITY
  if (remaining >= cost) return 0
  // The full quota fits only when nothing is spent; a cost that fits no sooner than that fits at the same time as any
  // larger cost.
  if (cost === maxCost || verdict.retryAfterMs === resetAfterMs) return resetAfterMs
  return algorithmOf(limit.algorithm).refusedAfterMs?.(verdict, cost)
}
