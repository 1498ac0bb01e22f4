import type { Histogram } from './histogram.js'

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

/** Any client may write to Redis: invalid parts are omitted. */
export function readDetails(text: string): ProcessDetails | undefined {
  let given: { keys?: unknown; queues?: unknown; levels?: unknown } | null
  try {
    given = JSON.parse(text)
  } catch {
    return undefined
  }
  if (typeof given !== 'object' || given === null) return undefined
  const keys = new Map<string, readonly KeyRow[]>()
  for (const row of listOf(given.keys)) {
    const [limiter, rows] = listOf(row)
    if (typeof limiter === 'string') keys.set(limiter, listOf(rows).filter(isKeyRow))
  }
  const deliveries: DeliveryRow[] = []
  for (const row of listOf(given.queues)) {
    const [queue, buckets, count, attempts] = listOf(row)
    if (typeof queue !== 'string' || typeof count !== 'number' || typeof attempts !== 'number') continue
    const pairs = listOf(buckets).filter((pair): pair is [number, number] => listOf(pair).every(isNumber))
    deliveries.push({ queue, lateness: new Map(pairs), deliveries: count, attempts })
  }
  return { keys, deliveries, levels: listOf(given.levels).filter(isLevelRow) }
}

function listOf(given: unknown): unknown[] {
  return Array.isArray(given) ? given : []
}

function isNumber(given: unknown): given is number {
  return typeof given === 'number' && Number.isFinite(given)
}

function isKeyRow(given: unknown): given is KeyRow {
  const [key, asked, refused] = listOf(given)
  return typeof key === 'string' && isNumber(asked) && isNumber(refused)
}

function isLevelRow(given: unknown): given is LevelRow {
  if (typeof given !== 'object' || given === null) return false
  const { object, name } = given as LevelRow
  return typeof object === 'string' && typeof name === 'string'
}
