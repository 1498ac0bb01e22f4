import { Calendar } from '../core/calendar.js'
import { type Verdict, verdictOf } from '../core/decision.js'
import type { Limit } from '../core/limit.js'
import { type Algorithm, floorDiv, toSmallInteger } from './algorithm.js'
import { noteRefund, ownLeft } from './refund-note.js'

/** A counter that starts at the key's first request and ends a window later. */
interface FixedWindow {
  startedAt: number
  spent: number
}

/**
 * Counts from a key's first request, or in calendar windows; when the window ends, the count starts anew. The cheapest
 * limit. It allows up to twice its quota within an instant: once at the end of a window and once at the start of the
 * next.
 */
export const fixedWindow: Algorithm<FixedWindow> = {
  row: {
    width: 2,
    read: (cells, at) => ({ startedAt: cells[at], spent: cells[at + 1] }),
    write(cells, at, { startedAt, spent }) {
      cells[at] = startedAt
      cells[at + 1] = spent
    },
  },

  keySuffix: 'fw',
  redisWork: 1,
  shapes: false,
  notesResets: false,

  fresh: () => ({ startedAt: Number.NEGATIVE_INFINITY, spent: 0 }),
  copy: ({ startedAt, spent }) => ({ startedAt, spent }),
  isOver: (limit, { startedAt }, nowMs) => startedAt - nowMs + limit.windowMs <= 0,

  consume(limit, window, nowMs, cost) {
    const leftMs = runsFor(limit, window, nowMs)
    const spent = leftMs > 0 ? window.spent : 0
    if (cost === 0) return verdict(limit, spent, leftMs, 0)
    if (spent + cost > limit.quota) {
      return verdict(limit, spent, leftMs, cost > limit.quota ? Number.POSITIVE_INFINITY : leftMs)
    }
    if (leftMs === 0) window.startedAt = nowMs
    window.spent = spent + cost
    return verdict(limit, spent + cost, leftMs > 0 ? leftMs : lengthFrom(limit, nowMs), 0)
  },

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

  // A lease ends with its window, so all its units are spent in the window to which they are charged.
  lease: {
    chargedAt: soldAt => soldAt,
    returned: (_, units) => units,
  },

  fitsAfterMs(limit, window, nowMs, ahead, cost) {
    const { quota, windowMs } = limit
    if (cost > quota) return Number.POSITIVE_INFINITY
    const { remaining, resetAfterMs } = this.consume(limit, window, nowMs, 0)
    const over = ahead + cost - remaining
    if (over <= 0) return 0
    const further = floorDiv(over - 1, quota)
    return (resetAfterMs || lengthFrom(limit, nowMs)) + further * (calendarOf(limit)?.shortestMs ?? windowMs)
  },

  refusedAfterMs: ({ resetAfterMs }) => resetAfterMs,
}

/** The time until the window ends; 0 when it is over. */
function runsFor(limit: Limit, window: FixedWindow, nowMs: number): number {
  // A start in the future means that the clock ran back: the window restarts now, so that no request waits longer than
  // one window.
  if (window.startedAt > nowMs) window.startedAt = nowMs
  if (limit.calendar !== undefined) return calendarRunsFor(limit, window, nowMs)
  // Subtracting the moments first stays exact for windows near 2⁵³.
  const leftMs = window.startedAt - nowMs + limit.windowMs
  return leftMs > 0 ? leftMs : 0
}

function calendarRunsFor(limit: Limit, window: FixedWindow, nowMs: number): number {
  const span = (calendarOf(limit) as Calendar).spanAt(nowMs)
  return window.startedAt >= span.startAt ? span.endAt - nowMs : 0
}

/** The length of the window that begins at a moment. Sums of moments and windows near 2⁵³ would be rounded. */
function lengthFrom(limit: Limit, moment: number): number {
  const calendar = calendarOf(limit)
  return calendar === undefined ? limit.windowMs : calendar.spanAt(moment).endAt - moment
}

function calendarOf({ calendar }: Limit): Calendar | undefined {
  return calendar && Calendar.ofRule(calendar)
}

function verdict(limit: Limit, spent: number, resetAfterMs: number, retryAfterMs: number): Verdict {
  const remaining = spent < limit.quota ? toSmallInteger(limit.quota - spent) : 0
  return verdictOf(limit, remaining, toSmallInteger(retryAfterMs), toSmallInteger(resetAfterMs))
}
