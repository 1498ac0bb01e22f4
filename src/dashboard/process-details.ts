import type { Histogram } from './histogram.js'
import { finite, listOf, objectOf, oneOf, parsed, text, tuple, whole } from './shapes.js'

/** A key of a limiter: its requests and refusals per second. */
export type KeyRow = readonly [key: string, asked: number, refused: number]

/** Recent deliveries from a queue. */
export interface DeliveryRow {
  readonly queue: string
  readonly lateness: Histogram
  readonly deliveries: number
  readonly attempts: number
}

/** Current levels in one process. */
export interface LevelRow {
  readonly object: 'limiter' | 'rate' | 'semaphore' | 'concurrency' | 'queue'
  readonly name: string
  readonly inUse?: number
  readonly waiting?: number
  readonly depth?: number
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
const LEVEL = objectOf<Pick<LevelRow, 'object' | 'name'>, Required<Pick<LevelRow, 'inUse' | 'waiting' | 'depth'>>>(
  { object: oneOf('limiter', 'rate', 'semaphore', 'concurrency', 'queue'), name: text },
  { inUse: finite, waiting: finite, depth: finite },
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
