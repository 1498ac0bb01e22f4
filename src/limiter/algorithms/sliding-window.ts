import { type Verdict, verdictOf } from '../core/decision.js'
import type { Limit } from '../core/limit.js'
import { type Algorithm, toSmallInteger } from './algorithm.js'

/**
 * A log of what was spent and when. Entry i: by `entries[2i]` ms a total of `entries[2i + 1]` units had been spent.
 * Running totals make every question about a span a binary search. Entries `from`…`to - 1` count; the newest one is
 * kept in fields, so that spending again in the same ms changes one number. Entries from `to` on are garbage: several
 * states share one array, and an abandoned state may leave entries there.
 */
export interface SpendLog {
  entries: number[]
  from: number
  to: number
  /** The total before the oldest entry that counts. */
  gone: number
  newestAt: number
  total: number
}

/**
 * Exact: at most `quota` units in any span of one window, because every unit is free again exactly one window after it
 * was spent. State grows with the number of distinct milliseconds in which something was spent.
 */
export const slidingWindow: Algorithm<SpendLog> = {
  keySuffix: 'sw',
  shapes: false,

  // `newestAt` is a number from the start, so that all logs have the same shape in V8.
  fresh: () => ({ entries: [], from: 0, to: 0, gone: 0, newestAt: Number.NEGATIVE_INFINITY, total: 0 }),
  copy: ({ entries, from, to, gone, newestAt, total }) => ({ entries, from, to, gone, newestAt, total }),
  isOver: (limit, { total, gone, newestAt }, nowMs) => total === gone || expired(limit, newestAt, nowMs),

  consume(limit, log, nowMs, cost) {
    const spent = advance(limit, log, nowMs)
    if (cost === 0) return verdict(limit, log, nowMs, spent, 0)
    if (spent + cost <= limit.quota) {
      append(log, spent, nowMs, cost)
      return verdict(limit, log, nowMs, spent + cost, 0)
    }
    const retryAfterMs = cost > limit.quota ? Number.POSITIVE_INFINITY : retryAfter(limit, log, nowMs, cost)
    return verdict(limit, log, nowMs, spent, toSmallInteger(retryAfterMs))
  },
}

/**
 * Drops expired entries and moves future times to now; returns what is still spent. An empty log stays as it
 * is, because the clock may yet run back.
 */
export function advance(limit: Limit, log: SpendLog, nowMs: number): number {
  if (log.total === log.gone) return 0
  if (log.newestAt > nowMs) {
    while (log.to > log.from && log.entries[2 * log.to - 2] >= nowMs) log.to--
    // A copy, because another state that shares the entries still counts those that this one drops.
    log.entries = log.entries.slice(0, 2 * log.to)
    log.newestAt = nowMs
  }
  const lastExpiredAt = nowMs - limit.windowMs
  if (log.newestAt <= lastExpiredAt) return 0
  if (log.from < log.to && log.entries[2 * log.from] <= lastExpiredAt) dropUntil(log, lastExpiredAt)
  return log.total - log.gone
}

function dropUntil(log: SpendLog, lastExpiredAt: number): void {
  do log.from++
  while (log.from < log.to && log.entries[2 * log.from] <= lastExpiredAt)
  log.gone = log.entries[2 * log.from - 1]
  // Copying when half of the array is garbage moves each entry once in its life, and keeps the array below twice what
  // counts.
  if (log.from >= 32 && log.from * 2 >= log.to) keepOnly(log)
}

export function expired(limit: Limit, at: number, nowMs: number): boolean {
  return nowMs - at >= limit.windowMs
}

/** Keeps only the entries that count, in an array of its own. */
function keepOnly(log: SpendLog): void {
  log.entries = log.entries.slice(2 * log.from, 2 * log.to)
  log.to -= log.from
  log.from = 0
}

/** Spends at a time that is not before the newest entry; `spent` is the sum of the log so far. */
export function append(log: SpendLog, spent: number, at: number, cost: number): void {
  if (spent === 0) {
    begin(log, at, cost)
    return
  }
  if (log.total + cost > Number.MAX_SAFE_INTEGER) rebase(log)
  if (log.newestAt !== at) {
    log.entries[2 * log.to] = log.newestAt
    log.entries[2 * log.to + 1] = log.total
    log.to++
    log.newestAt = at
  }
  log.total = Math.min(log.total + cost, Number.MAX_SAFE_INTEGER)
}

function begin(log: SpendLog, at: number, cost: number): void {
  log.entries = []
  log.from = 0
  log.to = 0
  log.gone = 0
  log.newestAt = at
  log.total = cost
}

/**
 * The same log with totals counted from the oldest entry that counts, before they leave the exact integers (once in 2⁵³
 * units).
 */
function rebase(log: SpendLog): void {
  keepOnly(log)
  for (let i = 1; i < log.entries.length; i += 2) log.entries[i] -= log.gone
  log.total -= log.gone
  log.gone = 0
}

/** The first entry with a total of at least `total`; `to` stands for the newest. */
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

/** `cost` fits once the units that are too many now have expired: when the entry that spent the last of them does. */
function retryAfter(limit: Limit, log: SpendLog, nowMs: number, cost: number): number {
  const i = firstReaching(log, log.total - (limit.quota - cost))
  const at = i === log.to ? log.newestAt : log.entries[2 * i]
  return at - nowMs + limit.windowMs
}

function verdict(limit: Limit, log: SpendLog, nowMs: number, spent: number, retryAfterMs: number): Verdict {
  const remaining = spent < limit.quota ? limit.quota - spent : 0
  const resetAfterMs = spent === 0 ? 0 : toSmallInteger(log.newestAt - nowMs + limit.windowMs)
  return verdictOf(limit, remaining, retryAfterMs, resetAfterMs)
}
