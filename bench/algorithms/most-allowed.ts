import type { Limit } from '../../src/limiter/core/limit.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { ManualClock } from '../../src/testing.js'

/**
 * The most units in any span of a length: as they are allowed, and as they leave, which is later where a limit makes
 * them wait.
 */
export interface MostAllowed {
  readonly allowed: number
  readonly leaving: number
}

/**
 * The worst attack of one client with requests of cost 1, found by trying: optionally a first request at some moment,
 * then none, then a flood that spends all it can. Limits are weak near the ends of windows and cells, so every
 * millisecond there is tried.
 */
export function mostAllowed(limit: Limit, ...spansMs: readonly number[]): MostAllowed[] {
  const outcomes = attacks(limit.windowMs).map(attack => carryOut(limit, attack))
  return spansMs.map(spanMs => ({
    allowed: Math.max(...outcomes.map(({ allowed }) => densest(allowed, spanMs))),
    leaving: Math.max(...outcomes.map(({ leaving }) => densest(leaving, spanMs))),
  }))
}

interface Attack {
  readonly firstAt: number | undefined
  readonly floodAt: number
}

function attacks(windowMs: number): Attack[] {
  const near = [0, 0.25, 0.5, 0.75, 1].flatMap(part => [-2, -1, 0, 1].map(ms => Math.floor(part * windowMs) + ms))
  const floods = [...near, ...near.map(at => at + windowMs)].filter(at => at >= 0)
  const firsts = [undefined, 0, 1, Math.floor(windowMs / 2), windowMs - 1]
  return firsts.flatMap(firstAt =>
    floods.filter(floodAt => firstAt === undefined || firstAt < floodAt).map(floodAt => ({ firstAt, floodAt })),
  )
}

// A multiple of every window used here, since a sliding counter's cells are.
const START = Date.UTC(2026, 0, 1)

function carryOut(limit: Limit, { firstAt, floodAt }: Attack): { allowed: number[]; leaving: number[] } {
  const clock = new ManualClock()
  const store = new MemoryStore({ clock })
  const charges = [{ key: 'attacker', limit }]
  const allowed: number[] = []
  const leaving: number[] = []
  const ask = (at: number): number => {
    clock.set(START + at)
    const [verdict] = store.consume(charges, 1)
    if (!verdict.allowed) return verdict.retryAfterMs
    allowed.push(at)
    leaving.push(at + verdict.delayMs)
    return 0
  }
  if (firstAt !== undefined) ask(firstAt)
  // A request before the end of a denial gains nothing, and would slow this simulation down.
  for (let at = floodAt; at < floodAt + 2.5 * limit.windowMs; ) at += ask(at)
  store.close()
  return { allowed, leaving }
}

/** The most of these rising times in any span. */
function densest(times: readonly number[], spanMs: number): number {
  let most = 0
  let from = 0
  for (let to = 0; to < times.length; to++) {
    while (times[to] - times[from] >= spanMs) from++
    most = Math.max(most, to - from + 1)
  }
  return most
}
