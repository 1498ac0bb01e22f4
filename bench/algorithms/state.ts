import { ALGORITHM_NAMES, type Limit, parseLimit } from '../../src/limiter/core/limit.js'

/** A limit whose keys have each spent so many units, one a millisecond. */
export interface State {
  readonly name: string
  readonly limit: Limit
  readonly units: number
}

const QUOTA = 100
const WINDOW_MS = 60_000

/** Every algorithm with a key that was used once; and the one whose state grows, with a key that has spent all. */
export const STATES: readonly State[] = ALGORITHM_NAMES.flatMap(algorithm => {
  const limit = parseLimit({ quota: QUOTA, window: WINDOW_MS, algorithm })
  const once = { name: algorithm, limit, units: 1 }
  if (algorithm !== 'sliding-window') return [once]
  return [once, { name: `${algorithm}, full`, limit, units: QUOTA }]
})

/** The keys of so many clients, as addresses: a new text each time, so that it counts for whoever holds it. */
export function addresses(count: number): string[] {
  return Array.from({ length: count }, (_, i) => ['198', 18 + (i >> 16), (i >> 8) & 255, i & 255].join('.'))
}
