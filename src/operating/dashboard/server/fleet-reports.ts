import { randomBytes } from 'node:crypto'
import { Deadline } from '../../../limiter/core/clock.js'
import type { ClientPort, RedisClient } from '../../../redis/client.js'
import { portOf } from '../../../redis/clients.js'
import { hashReader } from '../../../redis/hash-reader.js'
import { notConnected, replyWords } from '../../../redis/replies.js'
import { runScript } from '../../../redis/script.js'
import { dashboardRead } from '../../../redis/scripts.js'
import { ALLOWED, addCounts, type Counts, eachRow, noCounts, REFUSED, SHADOW } from '../counts.js'
import {
  type Entry,
  type LevelRow,
  type LimitEntry,
  type ProcessDetails,
  type ProcessRecord,
  RecordKeys,
  readDetails,
  readEntry,
  readProcessRecord,
  STEP_MS,
  STEPS,
  stepOf,
} from '../records.js'

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
const REPLY_DEADLINE = new Deadline(2000)
/** A process that has something to tell reports at least every 10 s. */
const SILENT_MS = 15_000
/** The last keys, deliveries and levels of a process are no longer current after so long. */
const DETAILS_LIFE_MS = 60_000

interface Decoded<T> {
  readonly text: string
  readonly value: T
}

/** The last step that all active processes have told of, as far as rates count it. */
interface Window {
  readonly last: number
  readonly elapsedMs: number
}

type Pairs = ReadonlyArray<readonly [field: string, text: string]>

export interface Process {
  readonly id: string
  readonly heardAt: number
  readonly record: ProcessRecord
}

/**
 * The reports of processes with the last 15 minutes, as last read: the first reading loads all of them, each further
 * one only the new ones. Nothing is read while no page asks.
 */
export class FleetReports {
  readonly keys: RecordKeys
  readonly #port: ClientPort
  readonly #hash: (key: string) => Promise<Pairs>
  /** Step → limit → counts. */
  readonly #steps = new Map<number, Map<string, Counts>>()
  #entries = new Map<string, Entry>()
  #version = Number.NaN
  /** Limit → the last step in which it decided anything. */
  readonly #used = new Map<string, number>()
  #processes: Process[] = []
  #details: ReadonlyMap<string, ProcessDetails> = new Map()
  /** What was decoded last, by process: most of it comes unchanged. */
  #decodedRecords = new Map<string, Decoded<ReturnType<typeof readProcessRecord>>>()
  #decodedDetails = new Map<string, Decoded<ProcessDetails | undefined>>()
  /** What was decoded of the steps that may still change. */
  readonly #decodedSums = new Map<number, Map<string, Decoded<ReadonlyArray<readonly [id: string, counts: Counts]>>>>()
  #number = 0
  #changed = ''
  #alive: Process[] | undefined
  #window: Window | undefined
  #firstStep: number | undefined
  #load = 0
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
    if (isFresh && this.isConnected) return
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    await this.#reading
  }

  get isConnected(): boolean {
    return this.#port.state() === 'ready'
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

  /** By process; another map when it was read anew. */
  get details(): ReadonlyMap<string, ProcessDetails> {
    return this.#details
  }

  /** What each process told last of its levels; of a dead one that may be long ago. */
  get levels(): Iterable<readonly [Process, readonly LevelRow[]]> {
    return this.#processes.flatMap(process => {
      const levels = this.#decodedDetails.get(process.id)?.value?.levels
      return levels === undefined ? [] : [[process, levels] as const]
    })
  }

  /** Rises with each reading. */
  get number(): number {
    return this.#number
  }

  /** The newest change that a dashboard has noted, of whatever process: another text after each change. */
  get changed(): string {
    return this.#changed
  }

  /** The first step that tells anything. */
  get firstStep(): number {
    if (this.#firstStep === undefined) {
      this.#firstStep = stepOf(this.#serverMs)
      for (const [step, rows] of this.#steps) if (step < this.#firstStep && rows.size > 0) this.#firstStep = step
    }
    return this.#firstStep
  }

  /** The first step that may still change. */
  get openStep(): number {
    return stepOf(this.#serverMs - LATE_MS)
  }

  /** Rises when all steps are read again: then old ones may have changed too. */
  get load(): number {
    return this.#load
  }

  /** Whether a limit has decided anything in the last 15 minutes. */
  wasUsed(id: string): boolean {
    return (this.#used.get(id) ?? Number.NEGATIVE_INFINITY) > stepOf(this.#serverMs) - STEPS
  }

  counts(id: string, step: number): Counts | undefined {
    return this.#steps.get(step)?.get(id)
  }

  /** The sum of the last steps, and their seconds. */
  recent(id: string, steps: number): { readonly counts: Counts; readonly seconds: number } {
    const sum = noCounts()
    const { last, elapsedMs } = this.window
    for (let step = last - steps + 1; step <= last; step++) {
      const counts = this.counts(id, step)
      if (counts !== undefined) addCounts(sum, counts)
    }
    return { counts: sum, seconds: Math.max(1, ((steps - 1) * STEP_MS + elapsedMs) / 1000) }
  }

  /**
   * A process that was not heard of when it should have been: it is dead, or cannot reach Redis. What it told last is
   * not believed.
   */
  isSilent({ heardAt, record }: Process): boolean {
    return record.idle !== true && this.now - heardAt > Math.max(SILENT_MS, 3 * record.everyMs)
  }

  /** The processes that are heard of. */
  get alive(): readonly Process[] {
    this.#alive ??= this.#processes.filter(process => !this.isSilent(process))
    return this.#alive
  }

  /**
   * The current step as far as it was reported: up to the last reports of the active processes, on average. If they
   * report at unequal intervals, the last step of which all have told: a mean would count the requests of some over the
   * time of others.
   */
  get window(): Window {
    this.#window ??= this.#windowNow()
    return this.#window
  }

  #windowNow(): Window {
    const now = this.#serverMs
    const last = stepOf(now)
    const active = this.#processes.filter(
      ({ heardAt, record }) => record.perSecond > 0 && now - heardAt < 3 * record.everyMs,
    )
    if (active.length === 0) return { last, elapsedMs: now - last * STEP_MS }
    const every = active.map(({ record }) => record.everyMs)
    if (Math.max(...every) > 2 * Math.min(...every)) {
      const told = Math.min(...active.map(({ heardAt }) => heardAt))
      return { last: stepOf(told) - 1, elapsedMs: STEP_MS }
    }
    const heard = active.reduce((sum, { heardAt }) => sum + heardAt, 0) / active.length
    return { last, elapsedMs: Math.max(0, heard - last * STEP_MS) }
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
    const from = Math.max(this.openStep, stepOf(this.now) - STEPS + 1)
    const to = stepOf(this.now)
    return Array.from({ length: to - from + 1 }, (_, i) => from + i)
  }

  async #readSteps(steps: readonly number[]): Promise<void> {
    const { processes, index } = this.keys
    const detailed = performance.now() - this.#detailsAt >= (this.#processes.length > FEW ? DETAILS_MS : FRESH_MS)
    const sentAt = Date.now()
    const [clock, records, details, ...sums] = await REPLY_DEADLINE.hold(
      Promise.all([
        runScript(
          this.#port,
          dashboardRead,
          [index[2], this.keys.secret, this.keys.changes],
          [randomBytes(24).toString('base64url')],
        ),
        this.#hash(processes[1]),
        detailed ? this.#hash(processes[2]) : undefined,
        ...steps.map(step => this.#hash(this.keys.sums(step))),
      ]),
    )
    const [now, version, secret, changed] = clock as [number, number, string, string]
    this.#secret = secret
    this.#changed = changed
    const facts = version === this.#version ? undefined : await REPLY_DEADLINE.hold(this.#hash(index[1]))
    this.#serverMs = now
    this.#aheadMs = now - (sentAt + Date.now()) / 2
    this.#readAt = performance.now()
    this.#number++
    this.#alive = undefined
    this.#window = undefined
    this.#firstStep = undefined
    this.#takeProcesses(records)
    if (details !== undefined) this.#takeDetails(details)
    if (facts !== undefined) this.#takeEntries(facts, version)
    for (const [i, step] of steps.entries()) this.#takeSums(step, sums[i] ?? [])
    const oldest = stepOf(now) - STEPS
    for (const step of this.#steps.keys()) if (step <= oldest) this.#steps.delete(step)
    for (const step of this.#decodedSums.keys()) if (!steps.includes(step)) this.#decodedSums.delete(step)
    for (const [id, step] of this.#used) if (step <= oldest) this.#used.delete(id)
  }

  #takeProcesses(records: Pairs): void {
    this.#decodedRecords = decoded(records, this.#decodedRecords, readProcessRecord)
    this.#processes = []
    for (const [id, { value }] of this.#decodedRecords)
      if (value !== undefined && this.#serverMs - value.heardAt <= FORGOTTEN_MS) this.#processes.push({ id, ...value })
  }

  #takeDetails(rows: Pairs): void {
    this.#detailsAt = performance.now()
    this.#decodedDetails = decoded(rows, this.#decodedDetails, readDetails)
    const details = new Map<string, ProcessDetails>()
    for (const { id, heardAt } of this.#processes) {
      const value = this.#decodedDetails.get(id)?.value
      if (value !== undefined && this.#serverMs - heardAt < DETAILS_LIFE_MS) details.set(id, value)
    }
    this.#details = details
  }

  #takeEntries(facts: Pairs, version: number): void {
    this.#version = version
    const entries = new Map<string, Entry>()
    for (const [id, text] of facts) {
      const entry = readEntry(id, text)
      if (entry !== undefined) entries.set(id, entry)
    }
    this.#entries = entries
  }

  #takeSums(step: number, parts: Pairs): void {
    const known = decoded(parts, this.#decodedSums.get(step) ?? new Map(), readSums)
    this.#decodedSums.set(step, known)
    const rows = new Map<string, Counts>()
    for (const { value } of known.values()) {
      for (const [id, counts] of value) {
        rows.set(id, counts)
        if ((this.#used.get(id) ?? 0) < step) this.#used.set(id, step)
      }
    }
    this.#steps.set(step, rows)
  }

  #forget(): void {
    this.#load++
    this.#steps.clear()
    this.#decodedSums.clear()
    this.#used.clear()
    this.#version = Number.NaN
    this.#detailsAt = Number.NEGATIVE_INFINITY
    this.#readAt = Number.NEGATIVE_INFINITY
  }
}

/** Each text decoded; one that comes as it was is not decoded again. */
function decoded<T>(
  pairs: Pairs,
  before: ReadonlyMap<string, Decoded<T>>,
  read: (text: string) => T,
): Map<string, Decoded<T>> {
  const all = new Map<string, Decoded<T>>()
  for (const [field, text] of pairs) {
    const known = before.get(field)
    all.set(field, known?.text === text ? known : { text, value: read(text) })
  }
  return all
}

function readSums(text: string): Array<readonly [id: string, counts: Counts]> {
  const rows: Array<readonly [string, Counts]> = []
  eachRow(text, (id, counts) => rows.push([id, counts]))
  return rows
}

/** The present rates of a limit, allowed and refused per second: over the current step and the one before. */
export function ratesOf(reports: FleetReports, entry: LimitEntry) {
  const { counts, seconds } = reports.recent(entry.id, 2)
  const decided = counts[ALLOWED] + counts[REFUSED]
  return {
    entry,
    shadow: rounded(counts[SHADOW] / seconds),
    allowed: rounded(counts[ALLOWED] / seconds),
    refused: rounded(counts[REFUSED] / seconds),
    share: decided > 0 ? counts[REFUSED] / decided : 0,
  }
}

/** The share of decisions from the source with this index. */
export function shareOf(counts: Counts, place: number): number {
  let all = 0
  for (let i = 3; i < counts.length; i++) all += counts[i]
  return all > 0 ? counts[place] / all : 0
}

/** Three digits. `toPrecision` takes ten times as long, and a page has thousands of rates. */
export function rounded(value: number): number {
  if (value === 0) return 0
  const places = 2 - Math.floor(Math.log10(value))
  const scale = 10 ** Math.abs(places)
  return places >= 0 ? Math.round(value * scale) / scale : Math.round(value / scale) * scale
}
