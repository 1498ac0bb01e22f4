import { become, type CellPair, cellOf, pairAt } from '../algorithms/sliding-counter.js'
import type { ChangeArithmetic } from './change-arithmetic.js'
import { noteRefund, ownLeft } from './refund-note.js'

export const counterChanges: ChangeArithmetic<CellPair> = {
  notesResets: true,

  spend(limit, state, nowMs, cost) {
    const pair = pairAt(limit, state, nowMs)
    become(state, pair, pair.current + cost, pair.previous)
  },

  refund(limit, state, nowMs, cost, note) {
    const pair = pairAt(limit, state, nowMs)
    const fromCurrent = Math.min(cost, pair.current)
    const fromPrevious = Math.min(cost - fromCurrent, pair.previous)
    become(state, pair, pair.current - fromCurrent, pair.previous - fromPrevious)
    noteRefund(note, nowMs, fromCurrent + fromPrevious, note.cutAt >= state.startedAt - limit.windowMs)
  },

  // From the cell of the charge: all units of one cell have the same weight at any time.
  giveBack(limit, state, nowMs, units, receipt, note) {
    const cell = cellOf(limit, receipt.chargedAt)
    const nowCell = cellOf(limit, nowMs)
    // The clock stepped back: the units of this cell may be counted in an earlier one by now.
    if (cell > nowCell && state.startedAt <= nowCell) return
    if (nowCell - cell > limit.windowMs) return
    const isCurrent = cell === state.startedAt
    if (!isCurrent && cell !== state.startedAt - limit.windowMs) return
    const most = Math.min(units, ownLeft(receipt, note))
    if (isCurrent) state.current -= Math.min(most, state.current)
    else state.previous -= Math.min(most, state.previous)
  },
}
