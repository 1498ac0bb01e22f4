import type { Histogram } from './histogram.js'
import { finite, listOf, moment, objectOf, oneOf, parsed, text, tuple, whole } from './shapes.js'

/** A key of a limiter: its requests and refusals per second. */
export type KeyRow = readonly [key: string, asked: number, refused: number]

/** Recent deliveries from a queue. */
export interface DeliveryRow {
  readonly queue: string
  readonly lateness: Histogram
  readonly deliveries: number
  readonly attempts: number
}

/** What a process holds: the reference of a lease ('' for a place that only the process counts), permits, since when in ms since the epoch. */
export type HoldRow = readonly [lease: string, permits: number, since: number]

/** A lease is reported by the beginning of its id: 48 random bits name it, and nobody can take it over by them. */
export function leaseReference(id: string): string {
  return id.slice(0, 8)
}

/** Current levels in one process. */
export interface LevelRow {
  readonly object: 'limiter' | 'rate' | 'semaphore' | 'concurrency' | 'queue'
  readonly name: string
  readonly inUse?: number
  readonly waiting?: number
  readonly depth?: number
  /** The longest held, and how many more this process holds. */
  readonly holds?: readonly HoldRow[]
  readonly moreHolds?: number
}

/** What a process reports beside its sums: top keys, deliveries, levels. */
export interface ProcessDetails {
  readonly keys: ReadonlyMap<string, readonly KeyRow[]>
  readonly deliveries: readonly DeliveryRow[]
  readonly levels: readonly LevelRow[]
}

export function detailsText({ keys, deliveries, levels }: ProcessDetails): string {
  const queues = deliveries.map(({ queue, lateness, deliveries, attempts }) => [
    queue,
    [...lateness],
    deliveries,
    attempts,
  ])
  return JSON.stringify({ keys: [...keys], queues, levels })
}

const KEY = tuple<[key: string, asked: number, refused: number]>(text, finite, finite)
const DELIVERIES = tuple<[queue: string, buckets: Array<[number, number]>, deliveries: number, attempts: number]>(
  text,
  listOf(tuple<[number, number]>(whole, whole)),
  finite,
  finite,
)
const HOLDS = listOf(tuple<[lease: string, permits: number, since: number]>(text, finite, moment))
const LEVEL = objectOf<Pick<LevelRow, 'object' | 'name'>, Required<Omit<LevelRow, 'object' | 'name'>>>(
  { object: oneOf('limiter', 'rate', 'semaphore', 'concurrency', 'queue'), name: text },
  {
    inUse: finite,
    waiting: finite,
    depth: finite,
    holds: given => (given === undefined ? undefined : HOLDS(given)),
    moreHolds: whole,
  },
)
const DETAILS = objectOf({
  keys: listOf(tuple<[limiter: string, rows: KeyRow[]]>(text, listOf(KEY))),
  queues: listOf(DELIVERIES),
  levels: listOf(LEVEL),
})

/** Invalid parts are left out; undefined for what is none. */
export function readDetails(json: string): ProcessDetails | undefined {
  const details = parsed(json, DETAILS)
  if (details === undefined) return undefined
  const { keys, queues, levels } = details
  const deliveries = queues.map(([queue, buckets, deliveries, attempts]) => {
    return { queue, lateness: new Map(buckets), deliveries, attempts }
  })
  return { keys: new Map(keys), deliveries, levels }
}
