import type { DecisionSource } from '../../limiter/core/decision.js'
import { getOrMake } from '../../limiter/core/maps.js'

/** Durations in buckets that grow by a fifth: small, and summable over processes without losing percentiles. */
const PER_DOUBLING = 4

/** Bucket → how many. */
export type Histogram = Map<number, number>

export function addDuration(histogram: Histogram, ms: number): void {
  const bucket = Math.max(0, Math.ceil(PER_DOUBLING * Math.log2(Math.max(0, ms) + 1)))
  histogram.set(bucket, (histogram.get(bucket) ?? 0) + 1)
}

/** The duration that a share (0 to 1) of all do not exceed, in ms, at most a fifth too large; undefined if empty. */
export function percentile(histogram: Histogram, share: number): number | undefined {
  const bucket = atMost(histogram, share)
  return bucket === undefined ? undefined : 2 ** (bucket / PER_DOUBLING) - 1
}

/** The value that a share (0 to 1) of all counted values do not exceed; undefined if nothing was counted. */
export function atMost(counts: ReadonlyMap<number, number>, share: number): number | undefined {
  let left = 0
  for (const count of counts.values()) left += count
  if (left === 0) return undefined
  left = Math.ceil(left * share)
  const values = [...counts.keys()].sort((a, b) => a - b)
  return values.find(value => {
    left -= counts.get(value) ?? 0
    return left <= 0
  })
}

/** What was delivered of a queue. */
export interface Deliveries {
  readonly lateness: Histogram
  deliveries: number
  attempts: number
}

export function noDeliveries(): Deliveries {
  return { lateness: new Map(), deliveries: 0, attempts: 0 }
}

/** Adds to the sum of a queue. */
export function addDeliveries(sums: Map<string, Deliveries>, queue: string, added: Readonly<Deliveries>): void {
  const sum = getOrMake(sums, queue, noDeliveries)
  for (const [bucket, count] of added.lateness) sum.lateness.set(bucket, (sum.lateness.get(bucket) ?? 0) + count)
  sum.deliveries += added.deliveries
  sum.attempts += added.attempts
}

/** The counted outcomes of a limit, in their order in Redis; 'redis': by its store, if that is not in the process. */
export const COUNTED = ['allowed', 'refused', 'shadow', 'memory', 'redis', 'lease', 'remembered', 'fallback'] as const

/** One number for each of `COUNTED`. */
export type Counts = Float64Array

const SOURCE_INDEX: Readonly<Record<string, number>> = {
  memory: 3,
  redis: 4,
  postgres: 4,
  sqlite: 4,
  lease: 5,
  'deny-cache': 6,
  fallback: 7,
  open: 7,
  closed: 7,
} satisfies Partial<Record<DecisionSource | 'lease', number>>

export const ALLOWED = 0
export const REFUSED = 1
export const SHADOW = 2
export const FALLBACK = 7

const COMMA = 44
const ZERO = 48

export function noCounts(): Counts {
  return new Float64Array(COUNTED.length)
}

/** The index of a decision's source; a user's own store counts as memory. */
export function sourceIndex(source: string): number {
  return SOURCE_INDEX[source] ?? 3
}

export function countsText(counts: Counts): string {
  return counts.join(',')
}

/**
 * Any client may write to Redis: undefined for invalid counts. A step of a large fleet has thousands of them, so they
 * are parsed by hand.
 */
function readCounts(text: string, from = 0, to = text.length): Counts | undefined {
  const counts = noCounts()
  let place = 0
  let count = 0
  for (let i = from; i <= to; i++) {
    const code = i === to ? COMMA : text.charCodeAt(i)
    if (code === COMMA) {
      if (place === counts.length) return undefined
      counts[place++] = count
      count = 0
    } else if (code >= ZERO && code <= ZERO + 9) count = count * 10 + code - ZERO
    else return undefined
  }
  return place === counts.length ? counts : undefined
}

/** The rows of one text of a HASH of sums: see lua/operating/dashboard/outcome_sums.lua. What is none is left out. */
export function eachRow(text: string, take: (id: string, counts: Counts) => void): void {
  for (let from = 0; from < text.length; ) {
    const colon = text.indexOf(':', from)
    const end = text.indexOf(';', colon)
    if (colon < 0 || end < 0) return
    const counts = readCounts(text, colon + 1, end)
    if (counts !== undefined) take(text.slice(from, colon), counts)
    from = end + 1
  }
}

export function addCounts(sum: Counts, more: Counts): void {
  for (let i = 0; i < sum.length; i++) sum[i] += more[i]
}
