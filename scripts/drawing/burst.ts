import type { AlgorithmName, Limit } from '../../src/limiter/core/limit.js'
import { ALGORITHM_NAMES, parseLimit } from '../../src/limiter/core/limit.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { ManualClock } from '../../src/testing.js'

/** What became of one request; times in ms from the start of the picture. */
export interface Arrival {
  readonly at: number
  readonly allowed: boolean
  /** When it may proceed: at once, but for a leaky bucket. */
  readonly leavesAt: number
}

/** How one algorithm fares with the burst. */
export interface Story {
  readonly limit: Limit
  readonly arrivals: readonly Arrival[]
  /** Steps: from `at` on, so much is left. */
  readonly remaining: ReadonlyArray<{ readonly at: number; readonly units: number }>
  /** The window, from the burst on, in which most proceed. */
  readonly busiest: { readonly from: number; readonly count: number }
  /** Moments at which counting starts anew; none for algorithms that know no such moments. */
  readonly borders: readonly number[]
}

export const QUOTA = 10
export const WINDOW_MS = 10_000
export const LENGTH_MS = 30_000
const BURST_AT = 8_000

/** One request, a burst of five a second across the end of the first window, then a trickle. */
export const REQUESTS: readonly number[] = [
  0,
  ...Array.from({ length: 20 }, (_, i) => BURST_AT + 200 * i),
  ...Array.from({ length: 9 }, (_, i) => 13_000 + 2_000 * i),
]

// A multiple of the window, since a sliding counter's cells are.
const START = Date.UTC(2026, 0, 1)

export function stories(): Story[] {
  return ALGORITHM_NAMES.map(story)
}

function story(algorithm: AlgorithmName): Story {
  const clock = new ManualClock(START)
  const store = new MemoryStore({ clock })
  const limit = parseLimit({ quota: QUOTA, window: WINDOW_MS, algorithm })
  const charges = [{ key: 'a client', limit }]
  const arrivals: Arrival[] = []
  const remaining: Array<{ at: number; units: number }> = []
  const borders: number[] = []

  for (let at = 0; at < LENGTH_MS; at++) {
    clock.set(START + at)
    if (REQUESTS.includes(at)) {
      if (algorithm === 'fixed-window' && store.peek(charges, 0)[0].resetAfterMs === 0) borders.push(at)
      const [{ allowed, delayMs }] = store.consume(charges, 1)
      arrivals.push({ at, allowed, leavesAt: at + delayMs })
    }
    const [{ remaining: units }] = store.peek(charges, 0)
    if (units !== remaining.at(-1)?.units) remaining.push({ at, units })
  }
  store.close()
  if (algorithm === 'sliding-counter') for (let at = 0; at < LENGTH_MS; at += WINDOW_MS) borders.push(at)
  return { limit, arrivals, remaining, busiest: busiest(arrivals), borders }
}

function busiest(arrivals: readonly Arrival[]): { from: number; count: number } {
  const times = arrivals.filter(({ allowed }) => allowed).map(({ leavesAt }) => leavesAt)
  const spans = times
    .filter(from => from >= BURST_AT)
    .map(from => ({ from, count: times.filter(at => at >= from && at < from + WINDOW_MS).length }))
  return spans.reduce((most, span) => (span.count > most.count ? span : most))
}
