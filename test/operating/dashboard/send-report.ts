import {
  MINUTE_MS,
  RecordKeys,
  stepOf,
  TEN_MINUTES_MS,
  type ToldEvent,
} from '../../../src/operating/dashboard/records.js'
import { portOf } from '../../../src/redis/clients.js'
import { runScript } from '../../../src/redis/script.js'
import { dashboardReport } from '../../../src/redis/scripts.js'

type Rows = ReadonlyArray<readonly [id: string, counts: string]>

let number = 0

/** Sends one report as a process does: counts of a step, counts of a minute, notes of the index. */
export async function sendReport(
  client: object,
  {
    stepAt = Date.now(),
    rows = [],
    minuteAt = stepAt,
    minuteRows = [],
    notes = [],
    events = [],
    process = 'p',
    record = {},
    details,
  }: {
    stepAt?: number
    rows?: Rows
    minuteAt?: number
    minuteRows?: Rows
    notes?: ReadonlyArray<readonly [id: string, facts: object]>
    events?: readonly ToldEvent[]
    process?: string
    record?: object
    details?: object
  },
): Promise<void> {
  const keys = new RecordKeys('spillway')
  const minute = Math.floor(minuteAt / MINUTE_MS)
  await runScript(
    portOf(client, 'test'),
    dashboardReport,
    [
      ...keys.processes,
      keys.sums(stepOf(stepAt)),
      keys.sums(minute, MINUTE_MS),
      keys.sums(Math.floor(minuteAt / TEN_MINUTES_MS), TEN_MINUTES_MS),
      ...keys.index,
      ...keys.events,
    ],
    [
      String(++number),
      String(stepOf(stepAt)),
      process,
      JSON.stringify(record),
      details === undefined ? '' : JSON.stringify(details),
      String(rows.length),
      ...rows.flat(),
      String(minute),
      String(minuteRows.length),
      ...minuteRows.flat(),
      String(events.length),
      ...events
        .flatMap(({ chain, id, from, to, gapMs, count, value, reason }) => [
          chain,
          id,
          from,
          to,
          gapMs,
          count,
          value,
          reason,
        ])
        .map(String),
      '86400000',
      '10000',
      ...notes.flatMap(([id, facts]) => [id, JSON.stringify(facts)]),
    ],
  )
}
