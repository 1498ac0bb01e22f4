import type { Verdict } from '../decision.js'
import type { Limit } from '../limit.js'
import type { Algorithm } from './algorithm.js'

/**
 * A log of what was spent and when. Entry i says that by `entries[2i]` ms a total of `entries[2i + 1]` units had been spent;
 * running totals make every question about a span a binary search. Entries `from`…`to - 1` count, and the newest one is kept
 * beside them, so that spending again in the same ms changes a number. Entries from `to` on belong to nobody: states share
 * one array, and a state that is given up leaves at most such rubbish behind.
 */
export interface SpendLog {
  readonly entries: number[]
  readonly from: number
  readonly to: number
  /** Total before the oldest entry that counts. */
  readonly gone: number
  readonly newestAt: number
  readonly total: number
  /** Until when entries in the future are bookings, and no sign of a clock that ran back. */
  readonly bookedUntil: number
}

/**
 * Exact: at most `quota` units in any span of one window, because every unit is free again exactly one window after it was
 * spent. State grows with the number of distinct milliseconds in which something was spent.
 */
export const slidingWindow: Algorithm<SpendLog> = {
  measure(limit, state, nowMs, cost) {
    const log = logAt(limit, state, nowMs)
    const spent = log === undefined ? 0 : log.total - log.gone
    if (cost === 0) return { verdict: verdict(limit, log, nowMs, spent, 0), next: log }
    if (spent + cost <= limit.quota) {
      return { verdict: verdictAfterSpending(limit, spent + cost), next: append(log, nowMs, cost) }
    }
    const retryAfterMs =
      cost > limit.quota || log === undefined ? Number.POSITIVE_INFINITY : retryAfter(limit, log, nowMs, cost)
    return { verdict: verdict(limit, log, nowMs, spent, retryAfterMs), next: log }
  },

  spend(limit, state, nowMs, cost) {
    const log = logAt(limit, state, nowMs)
    return cost === 0 ? log : append(log, Math.max(nowMs, log?.newestAt ?? nowMs), cost)
  },

  book(limit, state, nowMs, cost, waitMs) {
    return { ...append(logAt(limit, state, nowMs), nowMs + waitMs, cost), bookedUntil: nowMs + waitMs }
  },

  refund(limit, state, nowMs, cost) {
    const log = logAt(limit, state, nowMs)
    if (log === undefined || cost === 0) return log
    const total = Math.max(log.gone, log.total - cost)
    // The entry that reached this total becomes the newest; what came after it is forgotten.
    const i = firstReaching(log, total)
    if (i === log.to) return { ...log, total }
    return { ...log, to: i, newestAt: log.entries[2 * i], total }
  },
}

/** The log without what has expired, times in the future moved to now; undefined when nothing is left. */
function logAt(limit: Limit, state: SpendLog | undefined, nowMs: number): SpendLog | undefined {
  if (state === undefined || state.total === state.gone) return undefined
  let log = state
  if (log.newestAt > nowMs && log.newestAt > log.bookedUntil) {
    let to = log.to
    while (to > log.from && log.entries[2 * to - 2] > nowMs) to--
    // A copy, because the state that was given still counts the entries that this one drops.
    log = { ...log, entries: log.entries.slice(0, 2 * to), to, newestAt: nowMs }
  }
  if (expired(limit, log.newestAt, nowMs)) return undefined
  let from = log.from
  while (from < log.to && expired(limit, log.entries[2 * from], nowMs)) from++
  if (from === log.from) return log
  return compact({ ...log, from, gone: log.entries[2 * from - 1] })
}

function expired(limit: Limit, at: number, nowMs: number): boolean {
  return nowMs - at >= limit.windowMs
}

/** Copying when half is rubbish costs each entry one move in its life, and bounds the array by twice what counts. */
function compact(log: SpendLog): SpendLog {
  if (log.from < 32 || log.from * 2 < log.to) return log
  return { ...log, entries: log.entries.slice(2 * log.from, 2 * log.to), from: 0, to: log.to - log.from }
}

function append(known: SpendLog | undefined, at: number, cost: number): SpendLog {
  if (known === undefined) return { entries: [], from: 0, to: 0, gone: 0, newestAt: at, total: cost, bookedUntil: 0 }
  const log = known.total + cost > Number.MAX_SAFE_INTEGER ? rebased(known) : known
  const total = Math.min(log.total + cost, Number.MAX_SAFE_INTEGER)
  if (log.newestAt === at) return { ...log, total }
  log.entries[2 * log.to] = log.newestAt
  log.entries[2 * log.to + 1] = log.total
  return { ...log, to: log.to + 1, newestAt: at, total }
}

/** The same log, its totals counted from what still counts: before they leave the exact integers, once in 2⁵³ units. */
function rebased(log: SpendLog): SpendLog {
  const entries = log.entries.slice(2 * log.from, 2 * log.to)
  for (let i = 1; i < entries.length; i += 2) entries[i] -= log.gone
  return { ...log, entries, from: 0, to: log.to - log.from, gone: 0, total: log.total - log.gone }
}

/** The first entry by which `total` had been spent; `to` stands for the newest. */
function firstReaching(log: SpendLog, total: number): number {
  let low = log.from
  let high = log.to
  while (low < high) {
    const middle = (low + high) >>> 1
    if (log.entries[2 * middle + 1] >= total) high = middle
    else low = middle + 1
  }
  return low
}

/** `cost` fits once as many units have expired as are too many now: when the entry that spent the last of them does. */
function retryAfter(limit: Limit, log: SpendLog, nowMs: number, cost: number): number {
  const i = firstReaching(log, log.total - (limit.quota - cost))
  const at = i === log.to ? log.newestAt : log.entries[2 * i]
  return at - nowMs + limit.windowMs
}

function verdict(limit: Limit, log: SpendLog | undefined, nowMs: number, spent: number, retryAfterMs: number): Verdict {
  return {
    limit,
    allowed: retryAfterMs === 0,
    remaining: spent < limit.quota ? limit.quota - spent : 0,
    retryAfterMs,
    resetAfterMs: log === undefined ? 0 : log.newestAt - nowMs + limit.windowMs,
    delayMs: 0,
  }
}

function verdictAfterSpending(limit: Limit, spent: number): Verdict {
  return {
    limit,
    allowed: true,
    remaining: limit.quota - spent,
    retryAfterMs: 0,
    resetAfterMs: limit.windowMs,
    delayMs: 0,
  }
}
