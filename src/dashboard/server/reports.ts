import { randomBytes } from 'node:crypto'
import { Deadline } from '../../core/deadline.js'
import type { ClientPort, RedisClient } from '../../redis/client.js'
import { hashReader } from '../../redis/hash-reader.js'
import { notConnected } from '../../redis/not-connected.js'
import { portOf } from '../../redis/port-of.js'
import { replyWords } from '../../redis/reply-words.js'
import { runScript } from '../../redis/run-script.js'
import { dashboardRead } from '../../redis/scripts.js'
import { type Entry, readEntry } from '../index-entry.js'
import { addCounts, type Counts, eachRow, noCounts } from '../outcome-counts.js'
import { type LevelRow, type ProcessDetails, readDetails } from '../process-details.js'
import { type ProcessRecord, readProcessRecord } from '../process-record.js'
import { RecordKeys, STEP_MS, STEPS, stepOf } from '../record-keys.js'

/** Two pages that ask at once share one reading. */
const FRESH_MS = 900
/** Top keys of many processes are large. */
const DETAILS_MS = 10_000
const FEW = 20
/** A step may still change for this long after its end, because reports come late. */
const LATE_MS = 12_000
/** Steps in one call of the first load: a millisecond or two of the server's time. */
const AT_ONCE = 10
/** As in dashboard_report.lua: there a few at a time go. */
const FORGOTTEN_MS = 3_600_000
const PATIENCE = new Deadline(2000)
/** A process that has something to tell reports at least every 10 s. */
const SILENT_MS = 15_000
/** The last keys, deliveries and levels of a process are no longer current after so long. */
const DETAILS_LIFE_MS = 60_000

type Pairs = ReadonlyArray<readonly [field: string, text: string]>

export interface Process {
  readonly id: string
  readonly heardAt: number
  readonly record: ProcessRecord
}

/**
 * The reports of processes with the last 15 minutes, as last read: the first reading loads all of them, each further one only the
 * new ones. Nothing is read while no page asks.
 */
export class Reports {
  readonly keys: RecordKeys
  readonly #port: ClientPort
  readonly #hash: (key: string) => Promise<Pairs>
  /** Step → limit → counts. */
  readonly #steps = new Map<number, Map<string, Counts>>()
  #entries = new Map<string, Entry>()
  #version = Number.NaN
  #processes: Process[] = []
  #details = new Map<string, ProcessDetails>()
  #levels = new Map<string, readonly LevelRow[]>()
  #detailsAt = Number.NEGATIVE_INFINITY
  /** By `performance.now()`. */
  #readAt = Number.NEGATIVE_INFINITY
  #serverMs = 0
  #secret = ''
  #aheadMs = 0
  #reading: Promise<void> | undefined
  #failing: { since: number; reason: string } | undefined

  constructor(client: RedisClient, prefix: string) {
    this.#port = portOf(client, 'dashboard')
    this.#hash = hashReader(client, 'dashboard')
    this.keys = new RecordKeys(prefix)
  }

  /** Reads new reports; resolves also if Redis fails: `failing` is then set, and earlier reports stay. */
  async refresh(): Promise<void> {
    const isFresh = performance.now() - this.#readAt < FRESH_MS && this.#failing === undefined
    if (isFresh && this.#port.state() === 'ready') return
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    await this.#reading
  }

  /** What hides keys: see `KeyViews`. Until it was read from Redis no key is known either. */
  get secret(): string {
    return this.#secret
  }

  /** Now, by the Redis server. */
  get now(): number {
    return Math.round(Date.now() + this.#aheadMs)
  }

  /** When the data was read, by the Redis server; 0: never. */
  get readAt(): number {
    return this.#serverMs
  }

  get failing(): { readonly since: number; readonly reason: string } | undefined {
    return this.#failing
  }

  get processes(): readonly Process[] {
    return this.#processes
  }

  get entries(): ReadonlyMap<string, Entry> {
    return this.#entries
  }

  get details(): Iterable<ProcessDetails> {
    return this.#details.values()
  }

  /** What each process told last of its levels; of a dead one that may be long ago. */
  get levels(): Iterable<readonly [Process, readonly LevelRow[]]> {
    return this.#processes.flatMap(process => {
      const levels = this.#levels.get(process.id)
      return levels === undefined ? [] : [[process, levels] as const]
    })
  }

  detailsOf(process: string): ProcessDetails | undefined {
    return this.#details.get(process)
  }

  /** The first step that tells anything. */
  get firstStep(): number {
    let first = stepOf(this.#serverMs)
    for (const [step, rows] of this.#steps) if (step < first && rows.size > 0) first = step
    return first
  }

  counts(id: string, step: number): Counts | undefined {
    return this.#steps.get(step)?.get(id)
  }

  /** The sum of the last steps, and their seconds. The current step counts up to its last report. */
  recent(id: string, steps: number): { readonly counts: Counts; readonly seconds: number } {
    const sum = noCounts()
    const last = stepOf(this.#serverMs)
    for (let step = last - steps + 1; step <= last; step++) {
      const counts = this.counts(id, step)
      if (counts !== undefined) addCounts(sum, counts)
    }
    return { counts: sum, seconds: Math.max(1, ((steps - 1) * STEP_MS + this.elapsedMs) / 1000) }
  }

  /** A process that was not heard of when it should have been: it is dead, or cannot reach Redis. What it told last is not believed. */
  isSilent({ heardAt, record }: Process): boolean {
    return record.idle !== true && this.now - heardAt > Math.max(SILENT_MS, 3 * record.everyMs)
  }

  /** The processes that are heard of. */
  get alive(): Process[] {
    return this.#processes.filter(process => !this.isSilent(process))
  }

  /** How far the current step has been reported, in ms: up to the last reports of the active processes, on average. */
  get elapsedMs(): number {
    const heard = this.#processes.filter(
      ({ heardAt, record }) => record.perSecond > 0 && this.#serverMs - heardAt < 3 * record.everyMs,
    )
    const sum = heard.reduce((sum, { heardAt }) => sum + heardAt, 0)
    const until = heard.length > 0 ? sum / heard.length : this.#serverMs
    return Math.max(0, until - stepOf(this.#serverMs) * STEP_MS)
  }

  async #read(): Promise<void> {
    try {
      const refusal = notConnected(this.#port.state())
      if (refusal !== undefined) throw refusal
      const wasFailing = this.#failing !== undefined
      if (wasFailing || performance.now() - this.#readAt > STEPS * STEP_MS) this.#forget()
      if (this.#readAt === Number.NEGATIVE_INFINITY) await this.#readAll()
      else await this.#readSteps(this.#openSteps())
      this.#failing = undefined
    } catch (error) {
      this.#failing ??= { since: this.now, reason: '' }
      this.#failing = { since: this.#failing.since, reason: replyWords(error).slice(0, 300) }
    }
  }

  async #readAll(): Promise<void> {
    await this.#readSteps([])
    const last = stepOf(this.#serverMs)
    for (let step = last - STEPS + 1; step <= last; step += AT_ONCE) {
      const steps = Array.from({ length: Math.min(AT_ONCE, last - step + 1) }, (_, i) => step + i)
      await this.#readSteps(steps)
    }
  }

  /** The steps that may have changed since the last reading. */
  #openSteps(): number[] {
    const from = Math.max(stepOf(this.#serverMs - LATE_MS), stepOf(this.now) - STEPS + 1)
    const to = stepOf(this.now)
    return Array.from({ length: to - from + 1 }, (_, i) => from + i)
  }

  async #readSteps(steps: readonly number[]): Promise<void> {
    const { processes, index } = this.keys
    const detailed = performance.now() - this.#detailsAt >= (this.#processes.length > FEW ? DETAILS_MS : FRESH_MS)
    const sentAt = Date.now()
    const [clock, records, details, ...sums] = await PATIENCE.hold(
      Promise.all([
        runScript(this.#port, dashboardRead, [index[2], this.keys.secret], [randomBytes(24).toString('base64url')]),
        this.#hash(processes[1]),
        detailed ? this.#hash(processes[2]) : undefined,
        ...steps.map(step => this.#hash(this.keys.sums(step))),
      ]),
    )
    const [now, version, secret] = clock as [number, number, string]
    this.#secret = secret
    const facts = version === this.#version ? undefined : await PATIENCE.hold(this.#hash(index[1]))
    this.#serverMs = now
    this.#aheadMs = now - (sentAt + Date.now()) / 2
    this.#readAt = performance.now()
    this.#takeProcesses(records)
    if (details !== undefined) this.#takeDetails(details)
    if (facts !== undefined) this.#takeEntries(facts, version)
    for (const [i, step] of steps.entries()) this.#takeSums(step, sums[i] ?? [])
    for (const step of this.#steps.keys()) if (step <= stepOf(now) - STEPS) this.#steps.delete(step)
  }

  #takeProcesses(records: Pairs): void {
    this.#processes = records.flatMap(([id, text]) => {
      const read = readProcessRecord(text)
      return read === undefined || this.#serverMs - read.heardAt > FORGOTTEN_MS ? [] : [{ id, ...read }]
    })
  }

  #takeDetails(rows: Pairs): void {
    this.#detailsAt = performance.now()
    this.#details = new Map()
    this.#levels = new Map()
    const heard = new Map(this.#processes.map(process => [process.id, process]))
    for (const [id, text] of rows) {
      const [process, details] = [heard.get(id), readDetails(text)]
      if (details === undefined || process === undefined) continue
      this.#levels.set(id, details.levels)
      if (this.#serverMs - process.heardAt < DETAILS_LIFE_MS) this.#details.set(id, details)
    }
  }

  #takeEntries(facts: Pairs, version: number): void {
    this.#version = version
    this.#entries = new Map()
    for (const [id, text] of facts) {
      const entry = readEntry(id, text)
      if (entry !== undefined) this.#entries.set(id, entry)
    }
  }

  #takeSums(step: number, parts: Pairs): void {
    const rows = new Map<string, Counts>()
    for (const [, text] of parts) eachRow(text, (id, counts) => rows.set(id, counts))
    this.#steps.set(step, rows)
  }

  #forget(): void {
    this.#steps.clear()
    this.#version = Number.NaN
    this.#detailsAt = Number.NEGATIVE_INFINITY
    this.#readAt = Number.NEGATIVE_INFINITY
  }
}
