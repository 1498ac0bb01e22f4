import { advance, append, expired, type SpendLog } from '../algorithms/sliding-window.js'
import type { ChangeArithmetic } from './change-arithmetic.js'

export const logChanges: ChangeArithmetic<SpendLog> = {
  notesResets: false,

  spend(limit, log, nowMs, cost) {
    const spent = advance(limit, log, nowMs)
    append(log, spent, nowMs, cost)
  },

  // The oldest units: if newer ones were removed instead, more than the quota would fit into one window.
  refund(limit, log, nowMs, cost) {
    if (advance(limit, log, nowMs) > 0) giveBackOldest(log, cost)
  },

  giveBack(limit, log, nowMs, units, { chargedAt }) {
    if (log.total === log.gone || expired(limit, chargedAt, nowMs)) return
    const i = entryAt(log, chargedAt)
    if (i === undefined) return
    const before = i === log.from ? log.gone : log.entries[2 * i - 1]
    const counted = (i === log.to ? log.total : log.entries[2 * i + 1]) - before
    const back = Math.min(units, counted)
    if (Math.min(i - log.from, log.to - i) > SETTLEMENT_REACH) giveBackOldest(log, back)
    else remove(log, i, back, back === counted)
  },
}

/**
 * The number of entries that a settlement may rewrite in Redis, where it blocks other clients. If a log has more on
 * either side of the decision's own entry, the oldest units are given back instead: equally many, and safe, but some
 * come back later.
 */
const SETTLEMENT_REACH = 1000

/** The entry of a moment; `to` stands for the newest. */
function entryAt(log: SpendLog, at: number): number | undefined {
  if (log.newestAt === at) return log.to
  let low = log.from
  let high = log.to
  while (low < high) {
    const middle = (low + high) >>> 1
    if (log.entries[2 * middle] >= at) high = middle
    else low = middle + 1
  }
  return low < log.to && log.entries[2 * low] === at ? low : undefined
}

/** Removes units from entry `i`, and the entry if it becomes empty. Changes the entries in place. */
function remove(log: SpendLog, i: number, units: number, whole: boolean): void {
  for (let j = whole ? i + 1 : i; j < log.to; j++) log.entries[2 * j + 1] -= units
  log.total -= units
  if (!whole) return
  if (i < log.to) log.entries.splice(2 * i, 2)
  if (log.to === log.from) return
  log.to--
  // The newest entry is gone: the previous one becomes the newest.
  if (i > log.to) {
    log.newestAt = log.entries[2 * log.to]
    log.total = log.entries[2 * log.to + 1]
  }
}

function giveBackOldest(log: SpendLog, units: number): void {
  log.gone = Math.min(log.total, log.gone + units)
  while (log.from < log.to && log.entries[2 * log.from + 1] <= log.gone) log.from++
}
