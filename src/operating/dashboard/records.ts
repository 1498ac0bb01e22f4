import { keySegment } from '../../limiter/core/key-segment.js'
import { type Limit, optionsOf, parsePolicy } from '../../limiter/core/limit.js'
import { OBSERVED_OBJECTS, type ObservedObject } from '../../limiter/core/observer.js'
import { COUNTED_IN, type CountedIn, indexKeys, type ObjectFacts, objectId, secretKey } from '../object-index.js'
import type { Deliveries } from './counts.js'
import { finite, listOf, moment, objectOf, oneOf, parsed, type Shape, text, tuple, whole } from './shapes.js'

/** A chart has a value for each step of so long, by the server's clock. */
export const STEP_MS = 10_000
/** Steps of the last 15 minutes. */
export const STEPS = 90

/** Counts of more than 15 minutes ago stand in steps of a minute for an hour, and in steps of ten minutes for a day. */
export const MINUTE_MS = 60_000
export const TEN_MINUTES_MS = 600_000

/**
 * The keys of what processes report, all in one slot of a cluster: see lua/operating/dashboard/dashboard_report.lua.
 */
export class RecordKeys {
  /** processes, records, details */
  readonly processes: readonly string[]
  /** The index of objects. */
  readonly index: readonly string[]
  /** events, facts, chains: see lua/operating/dashboard/events.lua */
  readonly events: readonly string[]
  /** What was changed by the dashboard: a list, newest first. */
  readonly changes: string
  /** The secret by which dashboards hide keys. */
  readonly secret: string
  readonly #root: string

  constructor(prefix: string) {
    this.#root = `${keySegment(prefix)}:{!dashboard}`
    this.processes = ['processes', 'records', 'details'].map(part => `${this.#root}:${part}`)
    this.index = indexKeys(prefix)
    this.events = ['events', 'event-facts', 'event-chains'].map(part => `${this.#root}:${part}`)
    this.changes = `${this.#root}:changes`
    this.secret = secretKey(prefix)
  }

  /** What was decided in a step: its number is ms since the epoch / `stepMs`. */
  sums(step: number, stepMs = STEP_MS): string {
    return `${this.#root}:${SUMS.get(stepMs)}:${step}`
  }
}

const SUMS = new Map([
  [STEP_MS, 'sums'],
  [MINUTE_MS, 'minutes'],
  [TEN_MINUTES_MS, 'tens'],
])

export function stepOf(atMs: number): number {
  return Math.floor(atMs / STEP_MS)
}

/** The row with the sum of all decisions of all limiters. */
export const TOTAL_ROW = '*'

const OBJECT_KINDS = ['rate', 'semaphore', 'queue'] as const
export type ObjectKind = (typeof OBJECT_KINDS)[number]

/** A limit of a limiter, as recorded in the index of objects. */
export interface LimitEntry {
  readonly kind: 'limit'
  readonly id: string
  /** The limiter. */
  readonly name: string
  readonly limit: Limit
  /** What is counted: 'per address'; undefined if unknown. */
  readonly per?: string
  /** Where it is counted: only counts in Redis can be looked up and changed. */
  readonly store: CountedIn
  /** In a cluster: the number of hash tags over which its keys are spread. */
  readonly tags?: number
}

/** A shared rate, a semaphore or a queue. */
interface ObjectEntry {
  readonly kind: ObjectKind
  readonly id: string
  readonly name: string
}

/** That a service uses a limiter or an object; `name` is that of the service. */
interface UseEntry {
  readonly kind: 'use'
  readonly id: string
  readonly name: string
  readonly of: UsedKind
  readonly object: string
}

export type UsedKind = 'limit' | ObjectKind
export type Entry = LimitEntry | ObjectEntry | UseEntry

export function objectFacts(kind: ObjectKind, name: string): ObjectFacts {
  return { kind, name }
}

/** Notes for the uses of what has been noted, so that the dashboard can show what one service uses. */
export function useNotes(
  service: string,
  notes: ReadonlyArray<readonly [id: string, facts: ObjectFacts]>,
): Map<string, ObjectFacts> {
  return new Map(
    notes.map(([, { kind, name }]) => [
      objectId('use', service, kind, name),
      { kind: 'use', name: service, of: kind, object: name },
    ]),
  )
}

/** A limit as this version would make it: undefined where it has no such algorithm, window or zone. */
const readLimit: Shape<Limit> = given => {
  const limit = given as Limit
  try {
    return parsePolicy(optionsOf(limit))[0]
  } catch {
    return undefined
  }
}

const OBJECT = objectOf({ kind: oneOf(...OBJECT_KINDS), name: text })
const LIMIT = objectOf(
  { kind: oneOf('limit'), name: notEmpty, limit: readLimit },
  {
    per: text,
    store: oneOf(...COUNTED_IN),
    tags: (given: unknown) => ((given as number) > 0 ? whole(given) : undefined),
  },
)

const USE = objectOf({ kind: oneOf('use'), name: text, of: oneOf('limit', ...OBJECT_KINDS), object: text })

/** Undefined for an invalid entry. */
export function readEntry(id: string, json: string): Entry | undefined {
  const limit = parsed(json, LIMIT)
  if (limit !== undefined) return { ...limit, id, store: limit.store ?? 'redis' }
  const object = parsed(json, OBJECT) ?? parsed(json, USE)
  return object && { ...object, id }
}

function notEmpty(given: unknown): string | undefined {
  return given === '' ? undefined : text(given)
}

/** An alert that fires in a process. */
export interface FiringAlert {
  readonly rule: string
  readonly when: string
  readonly subject: string
  readonly value: number
  /** Ms since the epoch. */
  readonly since: number
  /** The time over which it is measured; absent: while it lasts. */
  readonly overMs?: number
}

/** What a process tells of itself. Moments are ms since the epoch, by its own clock. */
export interface ProcessRecord {
  readonly service: string
  readonly version: string
  readonly host: string
  readonly pid: number
  readonly startedAt: number
  /** Decisions per second since the last report. */
  readonly perSecond: number
  /** How often it reports while something happens, in ms. */
  readonly everyMs: number
  /** Nothing happens, is held, waits or fires: it reports again when something does. */
  readonly idle?: boolean
  /** What Redis took to answer, in ms, on average since the last report; absent: it was not asked. */
  readonly answerMs?: number
  /** Since when its breaker is open, and why. */
  readonly breaker?: { readonly since: number; readonly reason: string }
  /** Queues whose consumers cannot work in this process: since when, and why. */
  readonly troubles?: readonly QueueTrouble[]
  readonly alerts?: readonly FiringAlert[]
  /** How many more fire than it tells. */
  readonly moreAlerts?: number
}

/** What a process tells of an event; several tell of the same. Moments by its own clock. */
export interface ToldEvent {
  /** Of its events only the last may go on. */
  readonly chain: string
  readonly id: string
  readonly from: number
  readonly to: number
  /** The last event goes on if it was told no longer ago than this, in ms; -1: it does not come again. */
  readonly gapMs: number
  /** Decisions made without Redis. */
  readonly count: number
  /** The largest value of an alert. */
  readonly value: number
  readonly reason: string
}

/** What happened, as its id says. */
export type Happening =
  | { readonly kind: 'outage'; readonly service: string }
  | { readonly kind: 'alert'; readonly rule: string; readonly when: string; readonly subject: string }
  | { readonly kind: 'deploy'; readonly service: string; readonly version: string }

const OUTAGE = objectOf({ kind: oneOf('outage'), service: text })
const ALERT = objectOf({ kind: oneOf('alert'), rule: text, when: text, subject: text })
const DEPLOY = objectOf({ kind: oneOf('deploy'), service: text, version: text })

/** Undefined for an invalid id. */
export function readHappening(json: string): Happening | undefined {
  return parsed(json, OUTAGE) ?? parsed(json, ALERT) ?? parsed(json, DEPLOY)
}

/** A queue whose consumers cannot work. */
export interface QueueTrouble {
  readonly queue: string
  readonly since: number
  readonly reason: string
}

const TROUBLE = objectOf<QueueTrouble>({ queue: text, since: moment, reason: text })
const FIRING = objectOf<Omit<FiringAlert, 'overMs'>, { overMs: number }>(
  { rule: text, when: text, subject: text, value: finite, since: moment },
  { overMs: finite },
)

const RECORD: Shape<ProcessRecord> = objectOf<
  Pick<ProcessRecord, 'service' | 'version' | 'host' | 'pid' | 'startedAt' | 'perSecond' | 'everyMs'>,
  {
    answerMs: number
    idle: boolean
    breaker: { since: number; reason: string }
    troubles: QueueTrouble[]
    alerts: FiringAlert[]
    moreAlerts: number
  }
>(
  { service: text, version: text, host: text, pid: finite, startedAt: moment, perSecond: finite, everyMs: finite },
  {
    answerMs: finite,
    idle: given => (given === true ? given : undefined),
    breaker: objectOf({ since: moment, reason: text }),
    troubles: given => (given === undefined ? undefined : listOf(TROUBLE)(given)),
    alerts: given => (given === undefined ? undefined : listOf(FIRING)(given)),
    moreAlerts: whole,
  },
)

/**
 * Undefined for what is no record. See lua/operating/dashboard/dashboard_report.lua for what stands before the JSON.
 */
export function readProcessRecord(line: string): { heardAt: number; record: ProcessRecord } | undefined {
  const [, heardAt, json] = /^\d+ (\d+) (.*)$/s.exec(line) ?? []
  const [at, record] = [moment(Number(heardAt)), parsed(json, RECORD)]
  return at === undefined || record === undefined ? undefined : { heardAt: at, record }
}

/** A key of a limiter: its requests and refusals per second. */
export type KeyRow = readonly [key: string, asked: number, refused: number]

/** Recent deliveries from a queue. */
export interface DeliveryRow extends Readonly<Deliveries> {
  readonly queue: string
}

/**
 * What a process holds: the reference of a lease ('' for a place that only the process counts), permits, since when in
 * ms since the epoch.
 */
export type HoldRow = readonly [lease: string, permits: number, since: number]

/** A lease is reported by the end of its id: 48 random bits name it, and nobody can take it over by them. */
export function leaseReference(id: string): string {
  return id.slice(-8)
}

/** Current levels in one process. */
export interface LevelRow {
  readonly object: ObservedObject
  readonly name: string
  readonly inUse?: number
  readonly waiting?: number
  readonly depth?: number
  /** Of a Bottleneck: what is left. */
  readonly reservoir?: number
  /** Of a partner's budget: units that count now, of how many. */
  readonly used?: number
  readonly rate?: number
  readonly intervalMs?: number
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
  { object: oneOf(...OBSERVED_OBJECTS), name: text },
  {
    inUse: finite,
    waiting: finite,
    depth: finite,
    reservoir: finite,
    used: finite,
    rate: finite,
    intervalMs: finite,
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
