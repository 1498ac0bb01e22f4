import type { Clock } from '../../../limiter/core/clock.js'
import type { Verdict } from '../../../limiter/core/decision.js'
import type { Limit, Policy } from '../../../limiter/core/limit.js'
import { ManualClock } from '../../../limiter/core/manual-clock.js'
import { MemoryStore } from '../../../limiter/memory/memory-store.js'
import { AccessLogLine, type KeyOfLine, keyOfLine, type Subject } from './access-log.js'
import type { LineReader } from './log-source.js'
import { KeyTable, MOST_KEYS, NO_KEY, Ranking, SubjectCounts } from './ranking.js'
import type { Report, TrialResult } from './report.js'
import { ALL, OF_ALL, TimeRows } from './timeline.js'

/** One policy under trial: its own counts in its own store, given the same requests as the other policies. */
class PolicySimulation {
  denied = 0
  deniedKeys = 0
  readonly #deniedById: number[] = []
  readonly #store: MemoryStore
  // Reused for every request, because the store is synchronous and does not keep them.
  readonly #charges: Array<{ key: string; limit: Limit }>

  /** `text`: the policy as it was asked for. */
  constructor(
    readonly text: string,
    readonly policy: Policy,
    clock: Clock,
  ) {
    // Room for all keys that can be counted: an evicted key would be allowed too much.
    this.#store = new MemoryStore({ clock, maxKeys: MOST_KEYS * policy.length })
    this.#charges = policy.map(limit => ({ key: '', limit }))
  }

  deniedOf(id: number): number {
    return this.#deniedById[id] ?? 0
  }

  /** The wait that the policy imposes on this request, in ms, at the current time of the clock; 0: it is allowed. */
  waitOf(key: string, id: number): number {
    while (this.#deniedById.length <= id) this.#deniedById.push(0)
    for (const charge of this.#charges) charge.key = key
    const waitMs = longestWait(this.#store.consume(this.#charges, 1))
    if (waitMs === 0) return 0
    this.denied++
    if (this.#deniedById[id]++ === 0) this.deniedKeys++
    return waitMs
  }

  close(): void {
    this.#store.close()
  }
}

function longestWait(verdicts: readonly Verdict[]): number {
  let waitMs = 0
  for (const verdict of verdicts) if (!verdict.allowed && verdict.retryAfterMs > waitMs) waitMs = verdict.retryAfterMs
  return waitMs
}

/**
 * Sorts entries by time. Entries of the same second keep their order.
 *
 * Keeps at most `capacity` entries, 24 bytes each. If there are fewer, they are sorted as a whole. Otherwise the
 * earlier half is passed on each time the space is full, so that an entry is sorted correctly if it is at most half of
 * `capacity` entries late. An entry that is later still gets the second that is already reached: time does not run
 * back.
 */
export class LogSorter {
  /** Entries that came earlier than the one before them. */
  outOfOrder = 0
  /** Entries that came too late to find their place. */
  late = 0
  /** True if all entries were kept and sorted as a whole. */
  whole = true
  readonly #capacity: number
  readonly #give: (second: number, id: number, other: number) => void
  /** second × capacity + slot: one number that sorts natively and keeps the order of entries of one second. */
  readonly #ranks: Float64Array
  #ids: Int32Array
  #spareIds: Int32Array
  #others: Int32Array
  #spareOthers: Int32Array
  #size = 0
  #sorted = true
  #last = Number.NEGATIVE_INFINITY
  #reached = Number.NEGATIVE_INFINITY

  /** `capacity`: a power of two, at most 2^20, so that the ranks of seconds below 2^33 (the year 2242) are exact. */
  constructor(capacity: number, give: (second: number, id: number, other: number) => void) {
    this.#capacity = capacity
    this.#give = give
    this.#ranks = new Float64Array(capacity)
    this.#ids = new Int32Array(capacity)
    this.#spareIds = new Int32Array(capacity)
    this.#others = new Int32Array(capacity)
    this.#spareOthers = new Int32Array(capacity)
  }

  /** `other`: a second number, passed on with the first. */
  push(second: number, id: number, other = 0): void {
    if (this.#size === this.#capacity) {
      this.#release(this.#capacity / 2)
      this.whole = false
    }
    if (second < this.#last) this.outOfOrder++
    this.#last = second
    const slot = this.#size++
    const rank = second * this.#capacity + slot
    if (slot > 0 && rank < this.#ranks[slot - 1]) this.#sorted = false
    this.#ranks[slot] = rank
    this.#ids[slot] = id
    this.#others[slot] = other
  }

  /** Passes on all entries that are still kept. */
  flush(): void {
    this.#release(this.#size)
  }

  #release(count: number): void {
    if (!this.#sorted) this.#ranks.subarray(0, this.#size).sort()
    for (let i = 0; i < count; i++) {
      const second = Math.floor(this.#ranks[i] / this.#capacity)
      const slot = this.#ranks[i] - second * this.#capacity
      if (second < this.#reached) this.late++
      else this.#reached = second
      this.#give(this.#reached, this.#ids[slot], this.#others[slot])
    }
    this.#keepFrom(count)
  }

  #keepFrom(first: number): void {
    for (let i = first; i < this.#size; i++) {
      const second = Math.floor(this.#ranks[i] / this.#capacity)
      const before = this.#ranks[i] - second * this.#capacity
      const slot = i - first
      this.#spareIds[slot] = this.#ids[before]
      this.#spareOthers[slot] = this.#others[before]
      this.#ranks[slot] = second * this.#capacity + slot
    }
    this.#size -= first
    ;[this.#ids, this.#spareIds] = [this.#spareIds, this.#ids]
    ;[this.#others, this.#spareOthers] = [this.#spareOthers, this.#others]
    this.#sorted = true
  }
}

export interface ReplayOptions {
  readonly policies: ReadonlyArray<{ readonly text: string; readonly policy: Policy }>
  readonly by: Subject
  /** As in the middleware. */
  readonly ipv6Subnet: number | false
  /** Keys to name. */
  readonly top: number
  /** Lines held back to be sorted by time: a power of two, at most 2^20, the default. */
  readonly heldLines?: number
  /** Whether to count what a page shows beside the report; `details` names at least so many keys. */
  readonly details?: number
  readonly mostKeys?: number
}

const HELD_LINES = 2 ** 20
const EXCERPT_BYTES = 200
const TIMELINE_ROWS = 30
const DETAILED_ROWS = 240

/**
 * Computes what policies would have done with the requests of an access log. It receives the lines from a `LineCutter`.
 *
 * The limiter's own stores judge each line at the line's own time. Memory holds the counts of each key, the limiters'
 * state, and a fixed number of lines that wait to be sorted.
 */
export class Replay implements LineReader {
  lines = 0
  readonly #options: ReplayOptions
  readonly #line = new AccessLogLine()
  readonly #clock = new ManualClock()
  readonly #keyOf: KeyOfLine
  readonly #keys: KeyTable
  readonly #requestsById: number[] = []
  readonly #order: LogSorter
  readonly #trials: readonly PolicySimulation[]
  readonly #timeline: TimeRows
  readonly #details: SubjectCounts | undefined
  /** Of the request that is judged, under each policy. */
  readonly #waits: number[]
  readonly #refused: boolean[]
  #requests = 0
  #withoutKey = 0
  #withHost = 0
  #skipped = 0
  #overlong = 0
  #firstSkipped: { line: number; text: string } | undefined
  #from: number | undefined
  #to: number | undefined

  constructor(options: ReplayOptions) {
    this.#options = options
    this.#keyOf = keyOfLine(options.by, options.ipv6Subnet)
    this.#keys = new KeyTable(options.mostKeys)
    this.#order = new LogSorter(options.heldLines ?? HELD_LINES, (second, id, other) => this.#judge(second, id, other))
    this.#trials = options.policies.map(({ text, policy }) => new PolicySimulation(text, policy, this.#clock))
    this.#timeline = new TimeRows(this.#trials.length, OF_ALL)
    this.#waits = new Array<number>(this.#trials.length).fill(0)
    this.#refused = new Array<boolean>(this.#trials.length).fill(false)
    if (options.details !== undefined)
      this.#details = new SubjectCounts(options.by, options.ipv6Subnet, this.#trials.length)
  }

  /** Throws `TooManyKeysError` when a key is one too many; the report of the lines before can still be had. */
  line(bytes: Buffer, start: number, end: number): void {
    this.lines++
    if (!this.#line.read(bytes, start, end)) {
      this.#skipped++
      const excerptEnd = Math.min(end, start + EXCERPT_BYTES)
      this.#firstSkipped ??= { line: this.lines, text: bytes.toString('latin1', start, excerptEnd) }
      return
    }
    if (this.#line.hasHost) this.#withHost++
    const key = this.#keyOf(this.#line)
    const other = this.#details?.otherOf(this.#line) ?? NO_KEY
    this.#order.push(this.#line.second, key === undefined ? NO_KEY : this.#keys.idOf(key), other)
  }

  overlongLine(): void {
    this.lines++
    this.#skipped++
    this.#overlong++
  }

  /** Judges the lines still held and sums up. `complete: false` says that the log went on. */
  finish({ complete = true } = {}): Report {
    this.#order.flush()
    for (const trial of this.#trials) trial.close()
    const { by, top, heldLines = HELD_LINES } = this.#options
    const { outOfOrder, late, whole } = this.#order
    const trials = this.#trials.map(trial => this.#resultOf(trial, top))
    return {
      complete,
      by,
      requests: this.#requests,
      withoutKey: this.#withoutKey,
      withHost: this.#withHost,
      skipped: { lines: this.#skipped, overlong: this.#overlong, first: this.#firstSkipped },
      order: {
        outOfOrder,
        late,
        sorted: outOfOrder === 0 ? 'none' : whole ? 'whole' : 'window',
        windowLines: heldLines / 2,
      },
      from: this.#from,
      to: this.#to,
      keys: this.#keys.size,
      trials,
      top: trials.length === 1 ? trials[0].top : this.#topBy(this.#trials, top),
      timeline: this.#timeline.summary(TIMELINE_ROWS),
      details: this.#details && {
        ...this.#details.finish(this.#keys, Math.max(top, this.#options.details ?? 0)),
        timeline: this.#timeline.summary(DETAILED_ROWS, { forChart: true }),
      },
    }
  }

  #judge(second: number, id: number, other: number): void {
    this.#requests++
    this.#from ??= second
    this.#to = second
    if (id === NO_KEY) {
      this.#withoutKey++
      this.#waits.fill(0)
    } else this.#try(second, id)
    for (let i = 0; i < this.#waits.length; i++) this.#refused[i] = this.#waits[i] > 0
    this.#timeline.add(ALL, second, this.#refused)
    this.#details?.add(second, id, other, this.#waits, this.#refused)
  }

  #try(second: number, id: number): void {
    while (this.#requestsById.length <= id) this.#requestsById.push(0)
    this.#requestsById[id]++
    const key = this.#keys.keyOf(id)
    this.#clock.set(second * 1000)
    for (let i = 0; i < this.#trials.length; i++) this.#waits[i] = this.#trials[i].waitOf(key, id)
  }

  #resultOf(trial: PolicySimulation, top: number): TrialResult {
    const { text, policy, denied, deniedKeys } = trial
    return { text, policy, denied, deniedKeys, top: this.#topBy([trial], top) }
  }

  #topBy(trials: readonly PolicySimulation[], most: number) {
    const ranking = new Ranking(most)
    for (let id = 0; id < this.#keys.size; id++) {
      ranking.add({
        key: this.#keys.keyOf(id),
        requests: this.#requestsById[id],
        denied: trials.map(trial => trial.deniedOf(id)),
      })
    }
    return ranking.first()
  }
}
