import type { AccessLogLine } from './access-log.js'
import { type KeyOfLine, keyOfLine } from './log-line-key.js'
import type { Subject } from './page-data.js'
import { KeyTable, type RankedKey, Ranking, WaitCounts, type Waits } from './ranking.js'
import { ActivitySeries } from './timeline.js'

/** The additional data of the HTML page. */
export interface ReportDetails {
  /** For each policy; undefined if it refused no request. */
  readonly waits: ReadonlyArray<Waits | undefined>
  /** The keys that the limits count by. */
  readonly keys: SubjectDetails
  /** Paths, or addresses if the limits count by path. */
  readonly others: SubjectDetails
}

/** The subjects of one kind that are refused most. */
export interface SubjectDetails {
  readonly subject: Subject
  /** How many there are, shown here or not. */
  readonly count: number
  readonly spanSeconds: number
  /** Starts of the rows in which anything happened, seconds since the epoch. */
  readonly rows: readonly number[]
  readonly top: readonly RankedSubject[]
}

interface RankedSubject extends RankedKey {
  /** Under each policy, ms; 0: never refused. */
  readonly longestWaits: readonly number[]
  readonly activity: ReturnType<ActivitySeries['of']>
}

/** The most other subjects that are counted separately; later ones are counted together. */
const MOST_OTHERS = 1_000_000
const ALL_OTHERS = '(all others)'
const NO_KEY = -1

/** Counts for the HTML page, beyond those of every report. */
export class HtmlDetails {
  readonly #waits: readonly WaitCounts[]
  readonly #keys: Subjects
  readonly #others: Subjects
  readonly #otherOf: KeyOfLine
  readonly #otherTable = new KeyTable(MOST_OTHERS + 1)
  readonly #other: Subject
  readonly #refused: boolean[]

  constructor(
    readonly by: Subject,
    ipv6Subnet: number | false,
    policies: number,
  ) {
    this.#other = by === 'path' ? 'ip' : 'path'
    this.#otherOf = keyOfLine(this.#other, ipv6Subnet)
    this.#waits = Array.from({ length: policies }, () => new WaitCounts())
    this.#keys = new Subjects(policies)
    this.#others = new Subjects(policies)
    this.#refused = new Array<boolean>(policies).fill(false)
  }

  /** The number of the line's path, or address. */
  otherOf(line: AccessLogLine): number {
    const other = this.#otherOf(line)
    if (other === undefined) return NO_KEY
    return this.#otherTable.idOf(
      this.#otherTable.size < MOST_OTHERS ? other : (this.#otherTable.known(other) ?? ALL_OTHERS),
    )
  }

  /** `waits`: under each policy in ms; 0: allowed. */
  add(second: number, id: number, other: number, waits: readonly number[]): void {
    for (let i = 0; i < waits.length; i++) {
      this.#refused[i] = waits[i] > 0
      if (waits[i] > 0) this.#waits[i].add(waits[i])
    }
    if (id !== NO_KEY) this.#keys.add(id, second, waits, this.#refused)
    if (other !== NO_KEY) this.#others.add(other, second, waits, this.#refused)
  }

  finish(keys: KeyTable, most: number): ReportDetails {
    return {
      waits: this.#waits.map(waits => waits.sum()),
      keys: this.#keys.finish(this.by, keys, most),
      others: this.#others.finish(this.#other, this.#otherTable, most),
    }
  }
}

/** Counts of all subjects of one kind. */
class Subjects {
  readonly #requests: number[] = []
  /** By policy, then by subject. */
  readonly #denied: readonly number[][]
  readonly #longest: readonly number[][]
  readonly #activity: ActivitySeries

  constructor(policies: number) {
    this.#denied = Array.from({ length: policies }, () => [])
    this.#longest = Array.from({ length: policies }, () => [])
    this.#activity = new ActivitySeries(policies)
  }

  add(id: number, second: number, waits: readonly number[], refused: readonly boolean[]): void {
    this.#requests[id] = (this.#requests[id] ?? 0) + 1
    for (let i = 0; i < waits.length; i++) {
      this.#denied[i][id] = (this.#denied[i][id] ?? 0) + (refused[i] ? 1 : 0)
      this.#longest[i][id] = Math.max(this.#longest[i][id] ?? 0, waits[i])
    }
    this.#activity.add(id, second, refused)
  }

  finish(subject: Subject, keys: KeyTable, most: number): SubjectDetails {
    this.#activity.finish()
    const ranking = new Ranking<RankedKey & { readonly id: number }>(most)
    for (let id = 0; id < this.#requests.length; id++) {
      const denied = this.#denied.map(counts => counts[id])
      ranking.add({ id, key: keys.keyOf(id), requests: this.#requests[id], denied })
    }
    const top = ranking.first().map(({ id, ...ranked }) => ({
      ...ranked,
      longestWaits: this.#longest.map(waits => waits[id]),
      activity: this.#activity.of(id),
    }))
    const { spanSeconds, rows } = this.#activity
    return { subject, count: this.#requests.length, spanSeconds, rows, top }
  }
}
