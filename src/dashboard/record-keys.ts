import { keySegment } from '../redis/keys.js'
import { indexKeys, secretKey } from '../redis/object-index.js'

/** A chart has a value for each step of so long, by the server's clock. */
export const STEP_MS = 10_000
/** Steps of the last 15 minutes. */
export const STEPS = 90

/** Counts of more than 15 minutes ago stand in steps of a minute for an hour, and in steps of ten minutes for a day. */
export const MINUTE_MS = 60_000
export const TEN_MINUTES_MS = 600_000

/** The keys of what processes report, all in one slot of a cluster: see lua/dashboard/dashboard_report.lua. */
export class RecordKeys {
  /** processes, records, details */
  readonly processes: readonly string[]
  /** The index of objects. */
  readonly index: readonly string[]
  /** What was changed by the dashboard: a list, newest first. */
  readonly changes: string
  /** The secret by which dashboards hide keys. */
  readonly secret: string
  readonly #root: string

  constructor(prefix: string) {
    this.#root = `${keySegment(prefix)}:{!dashboard}`
    this.processes = ['processes', 'records', 'details'].map(part => `${this.#root}:${part}`)
    this.index = indexKeys(prefix)
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
