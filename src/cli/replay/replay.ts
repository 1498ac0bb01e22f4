import type { Policy } from '../../core/limit.js'
import { ManualClock } from '../../testing.js'
import { AccessLogLine } from './access-log.js'
import { HtmlDetails } from './html-details.js'
import { KeyTable } from './key-table.js'
import type { LineReader } from './lines.js'
import { type KeyOfLine, keyOfLine } from './log-line-key.js'
import { PolicyTrial } from './policy-trial.js'
import { Ranking } from './ranking.js'
import type { Report, TrialResult } from './report.js'
import type { Subject } from './subject-name.js'
import { TimeOrder } from './time-order.js'
import { Timeline, type TimelineRow } from './timeline.js'

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
const NO_KEY = -1
const EXCERPT_BYTES = 200
const TIMELINE_ROWS = 30
const DETAILED_ROWS = 240

/**
 * Computes what policies would have done with the requests of an access log. It receives the lines from a `LineCutter`.
 *
 * The limiter's own stores judge each line at the line's own time. Memory holds the counts of each key, the limiters' state, and
 * a fixed number of lines that wait to be sorted.
 */
export class Replay implements LineReader {
  lines = 0
  readonly #options: ReplayOptions
  readonly #line = new AccessLogLine()
  readonly #clock = new ManualClock()
  readonly #keyOf: KeyOfLine
  readonly #keys: KeyTable
  readonly #requestsById: number[] = []
  readonly #order: TimeOrder
  readonly #trials: readonly PolicyTrial[]
  readonly #timeline: Timeline
  readonly #details: HtmlDetails | undefined
  /** Of the request that is judged, under each policy. */
  readonly #waits: number[]
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
    this.#order = new TimeOrder(options.heldLines ?? HELD_LINES, (second, id, other) => this.#judge(second, id, other))
    this.#trials = options.policies.map(({ text, policy }) => new PolicyTrial(text, policy, this.#clock))
    this.#timeline = new Timeline(this.#trials.length)
    this.#waits = new Array<number>(this.#trials.length).fill(0)
    if (options.details !== undefined)
      this.#details = new HtmlDetails(options.by, options.ipv6Subnet, this.#trials.length)
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
    const row = this.#timeline.rowAt(second)
    row.requests++
    if (id === NO_KEY) {
      this.#withoutKey++
      this.#waits.fill(0)
    } else this.#try(second, id, row)
    this.#details?.add(second, id, other, this.#waits)
  }

  #try(second: number, id: number, row: TimelineRow): void {
    while (this.#requestsById.length <= id) this.#requestsById.push(0)
    this.#requestsById[id]++
    const key = this.#keys.keyOf(id)
    this.#clock.set(second * 1000)
    for (let i = 0; i < this.#trials.length; i++) {
      this.#waits[i] = this.#trials[i].waitOf(key, id)
      if (this.#waits[i] > 0) row.denied[i]++
    }
  }

  #resultOf(trial: PolicyTrial, top: number): TrialResult {
    const { text, policy, denied, deniedKeys } = trial
    return { text, policy, denied, deniedKeys, top: this.#topBy([trial], top) }
  }

  #topBy(trials: readonly PolicyTrial[], most: number) {
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
