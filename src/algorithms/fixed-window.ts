import type { Verdict } from '../decision.js'
import type { Limit } from '../limit.js'
import type { Measurement, RowAlgorithm } from './algorithm.js'

/** A counter that starts at the key's first request and ends a window later. */
export interface FixedWindow {
  readonly startedAt: number
  readonly spent: number
}

/**
 * Counts from a key's first request; when the window ends, counting starts anew at the next one. The cheapest limit; it admits up
 * to twice its quota in a span of one window, at the end of one and the start of the next, all within an instant.
 */
export const fixedWindow: RowAlgorithm<FixedWindow> = {
  width: 2,
  read: (cells, at) => ({ startedAt: cells[at], spent: cells[at + 1] }),
  write(cells, at, { startedAt, spent }) {
    cells[at] = startedAt
    cells[at + 1] = spent
  },

  measure(limit, state, nowMs, cost): Measurement<FixedWindow> {
    const running = runningAt(limit, state, nowMs)
    const spent = running === undefined ? 0 : running.spent
    if (cost === 0 || spent + cost <= limit.quota) {
      const next =
        cost === 0 ? running : { startedAt: running === undefined ? nowMs : running.startedAt, spent: spent + cost }
      return { verdict: verdict(limit, next, nowMs, 0), next }
    }
    const retryAfterMs = cost > limit.quota ? Number.POSITIVE_INFINITY : endsAfter(limit, running, nowMs)
    return { verdict: verdict(limit, running, nowMs, retryAfterMs), next: running }
  },

  spend(limit, state, nowMs, cost) {
    const running = runningAt(limit, state, nowMs)
    if (cost === 0) return running
    return { startedAt: running?.startedAt ?? nowMs, spent: (running?.spent ?? 0) + cost }
  },

  refund(limit, state, nowMs, cost) {
    const running = runningAt(limit, state, nowMs)
    return running && { startedAt: running.startedAt, spent: Math.max(0, running.spent - cost) }
  },
}

function runningAt(limit: Limit, state: FixedWindow | undefined, nowMs: number): FixedWindow | undefined {
  if (state === undefined) return undefined
  // A start in the future means that the clock ran back: the window starts now, so that nobody waits longer than one.
  if (state.startedAt > nowMs) return { startedAt: nowMs, spent: state.spent }
  return endsAfter(limit, state, nowMs) > 0 ? state : undefined
}

// Subtracting the moments first keeps this exact for windows near 2⁵³.
function endsAfter(limit: Limit, window: FixedWindow | undefined, nowMs: number): number {
  return window === undefined ? 0 : window.startedAt - nowMs + limit.windowMs
}

function verdict(limit: Limit, window: FixedWindow | undefined, nowMs: number, retryAfterMs: number): Verdict {
  const left = limit.quota - (window === undefined ? 0 : window.spent)
  return {
    limit,
    allowed: retryAfterMs === 0,
    remaining: Math.max(left, 0),
    retryAfterMs,
    resetAfterMs: endsAfter(limit, window, nowMs),
    delayMs: 0,
  }
}
