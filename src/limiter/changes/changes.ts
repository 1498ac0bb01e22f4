import { algorithmOf, copyOf, type State } from '../algorithms/registry.js'
import type { AlgorithmName, Limit } from '../core/limit.js'
import { leakyChanges, tokenChanges } from './bucket-changes.js'
import type { ChangeArithmetic } from './change-arithmetic.js'
import { counterChanges } from './counter-changes.js'
import { logChanges } from './log-changes.js'
import { newNote, type RefundNote } from './refund-note.js'
import { windowChanges } from './window-changes.js'

const CHANGES: Record<AlgorithmName, ChangeArithmetic<State>> = {
  'fixed-window': windowChanges,
  'sliding-window': logChanges,
  'sliding-counter': counterChanges,
  'token-bucket': tokenChanges,
  'leaky-bucket': leakyChanges,
}

export function changesOf({ algorithm }: Limit): ChangeArithmetic<State> {
  return CHANGES[algorithm]
}

// On copies: the given state does not change. `undefined` is the state of an unused key.

/** Spends even what does not fit. */
export function spend(limit: Limit, state: State | undefined, nowMs: number, cost: number): State | undefined {
  if (cost === 0) return state
  const next = copyOf(algorithmOf(limit.algorithm), state)
  changesOf(limit).spend(limit, next, nowMs, cost)
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
  changesOf(limit).refund(limit, next, nowMs, cost, note)
  return next
}
