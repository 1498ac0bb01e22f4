import { finite, listOf, moment, objectOf, parsed, type Shape, text } from './shapes.js'

/** An alert that fires in a process. */
export interface FiringAlert {
  readonly rule: string
  readonly when: string
  readonly subject: string
  readonly value: number
  /** Ms since the epoch. */
  readonly since: number
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
  /** Absent: this process judges nothing. */
  readonly alerts?: readonly FiringAlert[]
}

const FIRING = objectOf<FiringAlert>({ rule: text, when: text, subject: text, value: finite, since: moment })

const RECORD: Shape<ProcessRecord> = objectOf<
  Pick<ProcessRecord, 'service' | 'version' | 'host' | 'pid' | 'startedAt' | 'perSecond' | 'everyMs'>,
  { answerMs: number; idle: boolean; breaker: { since: number; reason: string }; alerts: FiringAlert[] }
>(
  { service: text, version: text, host: text, pid: finite, startedAt: moment, perSecond: finite, everyMs: finite },
  {
    answerMs: finite,
    idle: given => (given === true ? given : undefined),
    breaker: objectOf({ since: moment, reason: text }),
    alerts: given => (given === undefined ? undefined : listOf(FIRING)(given)),
  },
)

/** Undefined for what is no record. See lua/dashboard/dashboard_report.lua for what stands before the JSON. */
export function readProcessRecord(line: string): { heardAt: number; record: ProcessRecord } | undefined {
  const [, heardAt, json] = /^\d+ (\d+) (.*)$/s.exec(line) ?? []
  const [at, record] = [moment(Number(heardAt)), parsed(json, RECORD)]
  return at === undefined || record === undefined ? undefined : { heardAt: at, record }
}
