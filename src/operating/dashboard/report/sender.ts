import { Deadline } from '../../../limiter/core/clock.js'
import { getOrMake } from '../../../limiter/core/maps.js'
import type { ClientPort, RedisClient } from '../../../redis/client.js'
import { portOf } from '../../../redis/clients.js'
import { runScript } from '../../../redis/script.js'
import { dashboardLeave, dashboardReport } from '../../../redis/scripts.js'
import { MAX_NOTES, NOTE_LIFE_MS, type ObjectFacts } from '../../object-index.js'
import { type Counts, countsText } from '../counts.js'
import {
  detailsText,
  MINUTE_MS,
  type ProcessDetails,
  type ProcessRecord,
  RecordKeys,
  STEP_MS,
  STEPS,
  stepOf,
  TEN_MINUTES_MS,
  type ToldEvent,
} from '../records.js'
import { addRows } from './activity.js'

export type ObjectNotes = ReadonlyArray<readonly [id: string, facts: ObjectFacts]>

export interface Report {
  readonly record: ProcessRecord
  readonly details: ProcessDetails
  readonly rows: ReadonlyMap<string, Counts>
  readonly notes: ObjectNotes
  readonly events: readonly ToldEvent[]
  /** The time in which the rows were counted, until now. */
  readonly spanMs: number
  /** No further report is planned. */
  readonly isLast: boolean
}

/** Most rows and notes of one call, so that no call takes the server a millisecond. */
const MOST_ROWS = 250
const MOST_AT_ONCE = 50
const MOST_EVENTS = 200
const REPLY_DEADLINE = new Deadline(5000)

/** The content of one call; sent again under its number until it is answered, so that it counts once. */
interface Call {
  readonly number: number
  readonly step: number
  readonly rows: Rows
  /** The number of a minute, and rows of it. */
  readonly minute: number
  readonly minuteRows: Rows
  readonly notes: ObjectNotes
  readonly events: readonly ToldEvent[]
  readonly args: readonly string[]
}

type Rows = ReadonlyArray<readonly [id: string, counts: Counts]>

/**
 * Sends reports, one call at a time; keeps the sums of each step for 15 minutes while Redis is unreachable. What Redis
 * has accepted is added up here and goes, once a minute, with a report to the sums of the minute and of its ten
 * minutes. A process that is killed loses that minute of the long charts.
 */
export class ReportSender {
  readonly #port: ClientPort
  readonly #keys: RecordKeys
  /** Step → limit → counts that were not sent. */
  readonly #pending = new Map<number, Map<string, Counts>>()
  /** Minute → limit → counts that are in the sums of their steps, and not yet in those of the minute. */
  readonly #minutes = new Map<number, Map<string, Counts>>()
  /** The minutes are sent although they have not ended. */
  #isLast = false
  readonly #notes = new Map<string, ObjectFacts>()
  /** Those that were not sent. */
  readonly #events = new Map<string, ToldEvent>()
  #latest: Pick<Report, 'record' | 'details'> | undefined
  #unanswered: Call | undefined
  #isNew = false
  #number = 0
  #toldDetails = ''
  #indexVersion = 0
  /** How far the server's clock is ahead of ours. */
  #aheadMs = 0
  #sending: Promise<void> | undefined

  /** `lost` is called when the server has lost its records of objects. */
  constructor(
    client: RedisClient,
    prefix: string,
    readonly id: string,
    readonly lost: () => void,
  ) {
    this.#port = portOf(client, 'reporter')
    this.#keys = new RecordKeys(prefix)
  }

  /** Whether counts are unsent. */
  get hasPending(): boolean {
    return this.#isNew || this.#pending.size > 0 || this.#unanswered !== undefined || this.#minuteToSend() !== undefined
  }

  send({ record, details, rows, notes, events, spanMs, isLast }: Report): void {
    this.#latest = { record, details }
    this.#isLast = isLast
    this.#isNew = true
    for (const [id, facts] of notes) this.#notes.set(id, facts)
    for (const event of events) this.#addEvent(event)
    if (rows.size > 0) this.#share(rows, spanMs)
    for (const old of this.#pending.keys()) if (old < stepOf(this.#now()) - STEPS) this.#pending.delete(old)
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined
    })
  }

  async close(): Promise<void> {
    this.#isLast = true
    await this.#sending
    await this.#sendAll()
    if (this.#port.state() !== 'ready') return
    await REPLY_DEADLINE.hold(runScript(this.#port, dashboardLeave, this.#keys.processes, [this.id])).catch(() => {})
  }

  /** Unsent counts are kept for the next report. */
  async #sendAll(): Promise<void> {
    try {
      while (this.hasPending && ['ready', 'starting'].includes(this.#port.state())) await this.#sendOne()
    } catch {
      // Ignored here: the next report repeats it, and decisions notice an outage themselves.
    }
  }

  async #sendOne(): Promise<void> {
    this.#unanswered ??= this.#nextCall()
    if (this.#unanswered === undefined) return
    const { number, step, rows, minute, args } = this.#unanswered
    const keys = [
      ...this.#keys.processes,
      this.#keys.sums(step),
      this.#keys.sums(minute, MINUTE_MS),
      this.#keys.sums(Math.floor((minute * MINUTE_MS) / TEN_MINUTES_MS), TEN_MINUTES_MS),
      ...this.#keys.index,
      ...this.#keys.events,
    ]
    const sentAt = Date.now()
    const reply = await REPLY_DEADLINE.hold(runScript(this.#port, dashboardReport, keys, [String(number), ...args]))
    const [nowMs, done, version] = reply as [number, number, number]
    const call = this.#unanswered
    this.#unanswered = undefined
    this.#aheadMs = nowMs - (sentAt + Date.now()) / 2
    if (done === 0) this.#moveToCurrentStep(call)
    else if (rows.length > 0) addTo(this.#minutes, minuteOf(step), rows)
    if (version < this.#indexVersion) {
      this.#toldDetails = ''
      this.lost()
    }
    this.#indexVersion = version
  }

  #nextCall(): Call | undefined {
    if (this.#latest === undefined) return undefined
    const [step, sums] = this.#pending.entries().next().value ?? [stepOf(this.#now()), new Map<string, Counts>()]
    const rows = [...sums].slice(0, MOST_ROWS)
    for (const [id] of rows) sums.delete(id)
    if (sums.size === 0) this.#pending.delete(step)
    const minute = this.#minuteToSend() ?? minuteOf(step)
    // Each of them is added twice.
    const minuteRows = this.#takeMinute(minute, Math.floor((MOST_ROWS - rows.length) / 2))
    const notes = [...this.#notes].slice(0, MOST_AT_ONCE)
    for (const [id] of notes) this.#notes.delete(id)
    const events = [...this.#events.values()].slice(0, MOST_AT_ONCE)
    for (const event of events) this.#events.delete(eventKey(event))
    const { record, details } = this.#latest
    const text = detailsText(details)
    const args = [
      String(step),
      this.id,
      JSON.stringify(record),
      text === this.#toldDetails ? '' : text,
      ...rowsArgs(rows),
      String(minute),
      ...rowsArgs(minuteRows),
      String(events.length),
      ...events.flatMap(event => this.#eventArgs(event)),
      String(NOTE_LIFE_MS),
      String(MAX_NOTES),
      ...notes.flatMap(([id, facts]) => [id, JSON.stringify(facts)]),
    ]
    this.#toldDetails = text
    this.#isNew = false
    return { number: ++this.#number, step, rows, minute, minuteRows, notes, events, args }
  }

  /** A minute that has ended, with its last report; at the end of all reports every minute. */
  #minuteToSend(): number | undefined {
    const [minute] = this.#minutes.keys()
    const isDue = this.#isLast || (minute !== undefined && stepOf(this.#now()) > stepOf((minute + 1) * MINUTE_MS))
    return isDue ? minute : undefined
  }

  #takeMinute(minute: number, most: number): Rows {
    const sums = this.#minuteToSend() === minute ? this.#minutes.get(minute) : undefined
    if (sums === undefined) return []
    const rows = [...sums].slice(0, most)
    for (const [id] of rows) sums.delete(id)
    if (sums.size === 0) this.#minutes.delete(minute)
    return rows
  }

  /**
   * The answer has shown that our clock was wrong: counts of another step belong to the current one. Older counts are
   * dropped.
   */
  #moveToCurrentStep({ step, rows, minute, minuteRows, notes, events }: Call): void {
    if (minuteRows.length > 0) addTo(this.#minutes, minute, minuteRows)
    for (const [id, facts] of notes) this.#notes.set(id, facts)
    for (const event of events) this.#addEvent(event)
    this.#isNew = true
    const now = stepOf(this.#now())
    if (now !== step) addTo(this.#pending, now, rows)
  }

  /** Of one event only the whole is sent; while Redis is away few events are kept. */
  #addEvent(event: ToldEvent): void {
    const key = eventKey(event)
    const known = this.#events.get(key)
    if (known === undefined && this.#events.size >= MOST_EVENTS) return
    const { count = 0, value = 0, reason = '' } = known ?? {}
    this.#events.set(key, {
      ...event,
      count: count + event.count,
      value: Math.max(value, event.value),
      reason: reason || event.reason,
    })
  }

  #eventArgs({ chain, id, from, to, gapMs, count, value, reason }: ToldEvent): string[] {
    const moments = [from, to].map(at => String(Math.round(at + this.#aheadMs)))
    return [chain, id, ...moments, String(gapMs), String(count), String(value), reason]
  }

  /** What was counted across the end of a step is shared between both, by time. */
  #share(rows: ReadonlyMap<string, Counts>, spanMs: number): void {
    const now = this.#now()
    const [first, last] = [stepOf(now - spanMs), stepOf(now)]
    if (first === last) {
      addTo(this.#pending, last, rows)
      return
    }
    const part = Math.min(1, (last * STEP_MS - (now - spanMs)) / spanMs)
    const early = [...rows].map(([id, counts]) => [id, counts.map(count => Math.round(count * part))] as const)
    const late = [...rows].map(([id, counts]) => [id, counts.map(count => count - Math.round(count * part))] as const)
    addTo(this.#pending, last - 1, early)
    addTo(this.#pending, last, late)
  }

  #now(): number {
    return Date.now() + this.#aheadMs
  }
}

function eventKey({ id, from }: ToldEvent): string {
  return `${from} ${id}`
}

function minuteOf(step: number): number {
  return Math.floor((step * STEP_MS) / MINUTE_MS)
}

function rowsArgs(rows: Rows): string[] {
  return [String(rows.length), ...rows.flatMap(([id, counts]) => [id, countsText(counts)])]
}

/** Adds rows to the sums of an interval. */
function addTo(
  sums: Map<number, Map<string, Counts>>,
  interval: number,
  rows: Iterable<readonly [string, Counts]>,
): void {
  addRows(
    getOrMake(sums, interval, () => new Map()),
    rows,
  )
}
