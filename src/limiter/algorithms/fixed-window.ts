import { Calendar } from '../core/calendar.js'
import { type Verdict, verdictOf } from '../core/decision.js'
import type { Limit } from '../core/limit.js'
import { type Algorithm, toSmallInteger } from './algorithm.js'

/** A counter that starts at the key's first request and ends a window later. */
export interface FixedWindow {
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
  shapes: false,

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
}

/** The time until the window ends; 0 when it is over. */
export function runsFor(limit: Limit, window: FixedWindow, nowMs: number): number {
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
export function lengthFrom(limit: Limit, moment: number): number {
  const calendar = calendarOf(limit)
  return calendar === undefined ? limit.windowMs : calendar.spanAt(moment).endAt - moment
}

export function calendarOf({ calendar }: Limit): Calendar | undefined {
  return calendar && Calendar.ofRule(calendar)
}

function verdict(limit: Limit, spent: number, resetAfterMs: number, retryAfterMs: number): Verdict {
  const remaining = spent < limit.quota ? toSmallInteger(limit.quota - spent) : 0
  return verdictOf(limit, remaining, toSmallInteger(retryAfterMs), toSmallInteger(resetAfterMs))
}
