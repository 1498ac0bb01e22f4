import { SpillwayError } from '../../../limiter/core/errors.js'
import { atMost } from '../../dashboard/counts.js'
import { type AccessLogLine, type KeyOfLine, keyOfLine, type Subject } from './access-log.js'
import { type TimelineRow, TimeRows } from './timeline.js'

/** A key and how often each policy refused it. */
export interface RankedKey {
  readonly key: string
  readonly requests: number
  /** For each policy. */
  readonly denied: readonly number[]
}

/**
 * The first `most` of any number of keys: most refused first (by the policy that refused it most), then most requests,
 * then by key. Holds little more than twice as many as it keeps.
 */
export class Ranking<Key extends RankedKey = RankedKey> {
  #kept: Key[] = []
  /** The lowest entry of a full ranking: keys below it do not enter. */
  #last: Key | undefined

  constructor(readonly most: number) {}

  add(candidate: Key): void {
    if (this.#last !== undefined && compare(this.#last, candidate) < 0) return
    this.#kept.push(candidate)
    if (this.#kept.length >= 2 * this.most + 1000) this.#cut()
  }

  first(): readonly Key[] {
    this.#cut()
    return this.#kept
  }

  #cut(): void {
    this.#kept = this.#kept.sort(compare).slice(0, this.most)
    this.#last = this.#kept.length === this.most ? this.#kept.at(-1) : undefined
  }
}

function compare(a: RankedKey, b: RankedKey): number {
  return worst(b) - worst(a) || b.requests - a.requests || (a.key < b.key ? -1 : 1)
}

function worst({ denied }: RankedKey): number {
  let most = 0
  for (const count of denied) if (count > most) most = count
  return most
}

/** The most entries of a `Map`. With more keys the process would run out of memory at about this point. */
export const MOST_KEYS = 2 ** 24 - 1

/** There are more different keys than can be counted. Earlier counts are valid. */
export class TooManyKeysError extends SpillwayError {
  override readonly code = 'SPILLWAY_TOO_MANY_KEYS'
}

/** Numbers the keys, so that a waiting line and a count each need a number instead of another string. */
export class KeyTable {
  readonly #ids = new Map<string, number>()
  readonly #keys: string[] = []

  constructor(readonly mostKeys = MOST_KEYS) {}

  get size(): number {
    return this.#keys.length
  }

  keyOf(id: number): string {
    return this.#keys[id]
  }

  /** The key itself if it is in the table. */
  known(key: string): string | undefined {
    return this.#ids.has(key) ? key : undefined
  }

  /** Throws `TooManyKeysError` for a new key when the table is full. */
  idOf(key: string): number {
    const known = this.#ids.get(key)
    if (known !== undefined) return known
    if (this.#keys.length >= this.mostKeys) {
      throw new TooManyKeysError(
        `more than ${this.mostKeys} different keys: expected fewer, like those of a part of the log, or of ` +
          '--by ip with an --ipv6-subnet',
      )
    }
    const id = this.#keys.length
    this.#ids.set(key, id)
    this.#keys.push(key)
    return id
  }
}

/**
 * How long refused requests would have had to wait; Infinity: they never fit. In ms, exact to three digits; the longest
 * is exact.
 */
export interface Waits {
  /** Half of the refused requests wait no longer. */
  readonly median: number
  /** Nine in ten wait no longer. */
  readonly p90: number
  readonly longest: number
}

/** Counts waits in constant memory. */
export class WaitCounts {
  readonly #counts = new Map<number, number>()
  #longest = 0

  add(ms: number): void {
    const about = Number.isFinite(ms) ? Number(ms.toPrecision(3)) : ms
    this.#counts.set(about, (this.#counts.get(about) ?? 0) + 1)
    if (ms > this.#longest) this.#longest = ms
  }

  /** undefined if no request was refused. */
  sum(): Waits | undefined {
    if (this.#counts.size === 0) return undefined
    const within = (share: number) => Math.min(atMost(this.#counts, share) as number, this.#longest)
    return { median: within(0.5), p90: within(0.9), longest: this.#longest }
  }
}

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
  readonly activity: readonly TimelineRow[]
}

/** The most other subjects that are counted separately; later ones are counted together. */
const MOST_OTHERS = 1_000_000
const ALL_OTHERS = '(all others)'
/** The number of no key: a request that is not counted. */
export const NO_KEY = -1

/** Counts for the HTML page, beyond those of every report. */
export class SubjectCounts {
  readonly #waits: readonly WaitCounts[]
  readonly #keys: Subjects
  readonly #others: Subjects
  readonly #otherOf: KeyOfLine
  readonly #otherTable = new KeyTable(MOST_OTHERS + 1)
  readonly #other: Subject

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
  }

  /** The number of the line's path, or address. */
  otherOf(line: AccessLogLine): number {
    const other = this.#otherOf(line)
    if (other === undefined) return NO_KEY
    return this.#otherTable.idOf(
      this.#otherTable.size < MOST_OTHERS ? other : (this.#otherTable.known(other) ?? ALL_OTHERS),
    )
  }

  /** `waits`: under each policy in ms; 0: allowed. `refused`: whether it is more than that. */
  add(second: number, id: number, other: number, waits: readonly number[], refused: readonly boolean[]): void {
    for (let i = 0; i < waits.length; i++) if (refused[i]) this.#waits[i].add(waits[i])
    if (id !== NO_KEY) this.#keys.add(id, second, waits, refused)
    if (other !== NO_KEY) this.#others.add(other, second, waits, refused)
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
  readonly #activity: TimeRows

  constructor(policies: number) {
    this.#denied = Array.from({ length: policies }, () => [])
    this.#longest = Array.from({ length: policies }, () => [])
    this.#activity = new TimeRows(policies)
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
