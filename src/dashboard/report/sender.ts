import { Deadline } from '../../core/deadline.js'
import type { ClientPort, RedisClient } from '../../redis/client.js'
import { MOST_NOTES, NOTE_LIFE_MS, type ObjectFacts } from '../../redis/object-index.js'
import { portOf } from '../../redis/port-of.js'
import { runScript } from '../../redis/run-script.js'
import { dashboardLeave, dashboardReport } from '../../redis/scripts.js'
import { type Counts, countsText } from '../outcome-counts.js'
import { detailsText, type ProcessDetails } from '../process-details.js'
import type { ProcessRecord } from '../process-record.js'
import { RecordKeys, STEP_MS, STEPS, stepOf } from '../record-keys.js'
import { addRows } from './decision-sums.js'

export type ObjectNotes = ReadonlyArray<readonly [id: string, facts: ObjectFacts]>

export interface Report {
  readonly record: ProcessRecord
  readonly details: ProcessDetails
  readonly rows: ReadonlyMap<string, Counts>
  readonly notes: ObjectNotes
  /** The time in which the rows were counted, until now. */
  readonly spanMs: number
}

/** Most rows and notes of one call, so that no call takes the server a millisecond. */
const MOST_ROWS = 250
const MOST_AT_ONCE = 50
const PATIENCE = new Deadline(5000)

/** The content of one call; sent again under its number until it is answered, so that it counts once. */
interface Call {
  readonly number: number
  readonly step: number
  readonly rows: ReadonlyArray<readonly [id: string, counts: Counts]>
  readonly notes: ObjectNotes
  readonly args: readonly string[]
}

/** Sends reports, one call at a time; keeps the sums of each step for 15 minutes while Redis is unreachable. */
export class ReportSender {
  readonly #port: ClientPort
  readonly #keys: RecordKeys
  /** Step → limit → counts that were not sent. */
  readonly #pending = new Map<number, Map<string, Counts>>()
  readonly #notes = new Map<string, ObjectFacts>()
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
    return this.#isNew || this.#pending.size > 0 || this.#unanswered !== undefined
  }

  send({ record, details, rows, notes, spanMs }: Report): void {
    this.#latest = { record, details }
    this.#isNew = true
    for (const [id, facts] of notes) this.#notes.set(id, facts)
    if (rows.size > 0) this.#share(rows, spanMs)
    for (const old of this.#pending.keys()) if (old < stepOf(this.#now()) - STEPS) this.#pending.delete(old)
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined
    })
  }

  async close(): Promise<void> {
    await this.#sending
    if (this.#port.state() !== 'ready') return
    await PATIENCE.hold(runScript(this.#port, dashboardLeave, this.#keys.processes, [this.id])).catch(() => {})
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
    const { number, step, rows, notes, args } = this.#unanswered
    const keys = [...this.#keys.processes, this.#keys.sums(step), ...this.#keys.index]
    const sentAt = Date.now()
    const reply = await PATIENCE.hold(runScript(this.#port, dashboardReport, keys, [String(number), ...args]))
    const [nowMs, done, version] = reply as [number, number, number]
    this.#unanswered = undefined
    this.#aheadMs = nowMs - (sentAt + Date.now()) / 2
    if (done === 0) this.#misplaced(step, rows, notes)
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
    const notes = [...this.#notes].slice(0, MOST_AT_ONCE)
    for (const [id] of notes) this.#notes.delete(id)
    const { record, details } = this.#latest
    const text = detailsText(details)
    const args = [
      String(step),
      this.id,
      JSON.stringify(record),
      text === this.#toldDetails ? '' : text,
      String(rows.length),
      ...rows.flatMap(([id, counts]) => [id, countsText(counts)]),
      String(NOTE_LIFE_MS),
      String(MOST_NOTES),
      ...notes.flatMap(([id, facts]) => [id, JSON.stringify(facts)]),
    ]
    this.#toldDetails = text
    this.#isNew = false
    return { number: ++this.#number, step, rows, notes, args }
  }

  /** The answer has shown that our clock was wrong: counts of another step belong to the current one. Older counts are dropped. */
  #misplaced(step: number, rows: Call['rows'], notes: ObjectNotes): void {
    for (const [id, facts] of notes) this.#notes.set(id, facts)
    this.#isNew = true
    const now = stepOf(this.#now())
    if (now !== step) this.#keep(now, new Map(rows))
  }

  /** What was counted across the end of a step is shared between both, by time. */
  #share(rows: ReadonlyMap<string, Counts>, spanMs: number): void {
    const now = this.#now()
    const [first, last] = [stepOf(now - spanMs), stepOf(now)]
    if (first === last) {
      this.#keep(last, rows)
      return
    }
    const part = Math.min(1, (last * STEP_MS - (now - spanMs)) / spanMs)
    const early = new Map([...rows].map(([id, counts]) => [id, counts.map(count => Math.round(count * part))]))
    const late = new Map([...rows].map(([id, counts]) => [id, counts.map(count => count - Math.round(count * part))]))
    this.#keep(last - 1, early)
    this.#keep(last, late)
  }

  #keep(step: number, rows: ReadonlyMap<string, Counts>): void {
    const sums = this.#pending.get(step) ?? new Map<string, Counts>()
    addRows(sums, rows)
    this.#pending.set(step, sums)
  }

  #now(): number {
    return Date.now() + this.#aheadMs
  }
}
