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
  /** How often it reports, in ms: it is late when it has been silent for longer although something happens. */
  readonly everyMs: number
  /** What Redis took to answer, in ms, on average since the last report; absent: it was not asked. */
  readonly answerMs?: number
  /** Since when its breaker is open, and why. */
  readonly breaker?: { readonly since: number; readonly reason: string }
  /** Absent: this process judges nothing. */
  readonly alerts?: readonly FiringAlert[]
}

/** Anybody may write to Redis: undefined for what is no record. See lua/dashboard/dashboard_report.lua for what stands before the JSON. */
export function readProcessRecord(text: string): { heardAt: number; record: ProcessRecord } | undefined {
  const [, heardAt, json] = /^\d+ (\d+) (.*)$/s.exec(text) ?? []
  try {
    const given = JSON.parse(json ?? '') as Partial<ProcessRecord> | null
    if (typeof given !== 'object' || given === null) return undefined
    const texts = [given.service, given.version, given.host].every(value => typeof value === 'string')
    const numbers = [given.pid, given.startedAt, given.perSecond, given.everyMs].every(
      value => typeof value === 'number',
    )
    return texts && numbers ? { heardAt: Number(heardAt), record: given as ProcessRecord } : undefined
  } catch {
    return undefined
  }
}
