import { type AlgorithmName, parseLimit } from '../../src/limiter/core/limit.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { ManualClock } from '../../src/testing.js'

export interface Request {
  readonly at: number
  readonly key: string
}

export interface Comparison {
  readonly requests: number
  /** By the exact window. */
  readonly denied: number
  /** Allowed by the counter, denied by the exact window. */
  readonly wronglyAllowed: number
  readonly wronglyDenied: number
  /** Requests that the counter allowed in all, right or wrong. */
  readonly allowed: number
}

/**
 * Compares the decisions of a sliding counter with those of an exact sliding window for the same requests. Each counts
 * only the requests that it has allowed itself, so an early difference may cause later ones, which are counted too.
 */
export function compare(trace: readonly Request[], quota: number, windowMs: number): Comparison {
  const clock = new ManualClock()
  const ask = (algorithm: AlgorithmName) => {
    const limit = parseLimit({ quota, window: windowMs, algorithm })
    const store = new MemoryStore({ clock })
    return (key: string) => store.consume([{ key, limit }], 1)[0].allowed
  }
  const [exact, counter] = [ask('sliding-window'), ask('sliding-counter')]
  let [denied, wronglyAllowed, wronglyDenied, allowed] = [0, 0, 0, 0]
  for (const { at, key } of trace) {
    clock.set(at)
    const [truth, guess] = [exact(key), counter(key)]
    if (!truth) denied++
    if (guess) allowed++
    if (guess && !truth) wronglyAllowed++
    if (!guess && truth) wronglyDenied++
  }
  return { requests: trace.length, denied, wronglyAllowed, wronglyDenied, allowed }
}

export function wrongShare({ requests, wronglyAllowed, wronglyDenied }: Comparison): number {
  return (wronglyAllowed + wronglyDenied) / requests
}

export function sumOf(all: readonly Comparison[]): Comparison {
  const total = (field: keyof Comparison) => all.reduce((sum, one) => sum + one[field], 0)
  return {
    requests: total('requests'),
    denied: total('denied'),
    wronglyAllowed: total('wronglyAllowed'),
    wronglyDenied: total('wronglyDenied'),
    allowed: total('allowed'),
  }
}
