import { type FixedWindow, lengthFrom, runsFor } from '../algorithms/fixed-window.js'
import type { ChangeArithmetic } from './change-arithmetic.js'
import { noteRefund, ownLeft } from './refund-note.js'

export const windowChanges: ChangeArithmetic<FixedWindow> = {
  notesResets: false,

  spend(limit, window, nowMs, cost) {
    if (runsFor(limit, window, nowMs) > 0) {
      window.spent += cost
    } else {
      window.startedAt = nowMs
      window.spent = cost
    }
  },

  refund(limit, window, nowMs, cost, note) {
    if (runsFor(limit, window, nowMs) === 0) return
    const back = Math.min(cost, window.spent)
    window.spent -= back
    noteRefund(note, nowMs, back, note.cutAt >= window.startedAt)
  },

  // All units of the decision's own window are equal: they expire together.
  giveBack(limit, window, nowMs, units, receipt, note) {
    const { chargedAt } = receipt
    const { startedAt } = window
    if (chargedAt < startedAt || chargedAt - startedAt >= lengthFrom(limit, startedAt)) return
    // After the clock stepped back, this may be another window that was moved to the present.
    if (startedAt <= nowMs && chargedAt > nowMs) return
    if (nowMs - startedAt >= lengthFrom(limit, startedAt)) return
    window.spent -= Math.min(units, window.spent, ownLeft(receipt, note))
  },
}
