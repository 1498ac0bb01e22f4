import type { Decision } from '../../core/decision.js'
import type { Limit } from '../../core/limit.js'
import { limitFacts, limitId, type ObjectFacts } from '../../redis/object-index.js'
import { EVERYTHING } from '../index-entry.js'
import { ALLOWED, addCounts, type Counts, noCounts, placeOfSource, REFUSED, SHADOW } from '../outcome-counts.js'
import { keyKindOf } from './key-kind.js'

/** Most limits of one process; a service may create one for each key. */
const MOST_ROWS = 2000

interface Row {
  readonly id: string
  readonly limiter: string
  counts: Counts
  touched: boolean
  limit: Limit
  /** The limit as last recorded in the index. */
  notedLimit: Limit | undefined
  notedAt: number
  memory: boolean
  key: string
}

/** Notes are renewed after so long, and changed at most once in so long: limits of single keys may differ with each decision. */
const RENEW_MS = 3_600_000
const CHANGE_MS = 10_000

/** The sums of a process's decisions, for each limit. */
export class DecisionSums {
  readonly #byLimiter = new Map<string, WeakMap<Limit, Row>>()
  readonly #rows = new Map<string, Row>()
  #all = noCounts()
  #any = false

  constructor(readonly keyNames: Readonly<Record<string, string>>) {}

  /** Whether anything was decided since `take`. */
  get any(): boolean {
    return this.#any
  }

  add(decision: Decision, limiter: string): void {
    this.#any = true
    const { verdicts, source, key } = decision
    const place = placeOfSource(source)
    const isMemory = source === 'memory'
    for (const verdict of verdicts) {
      // Another limit refuses the request: this one spends nothing, and has let nobody through.
      if (verdict.allowed && !decision.allowed) continue
      const row = this.#rowOf(limiter, verdict.limit)
      if (row === undefined) continue
      count(row.counts, verdict.allowed, decision, place)
      row.touched = true
      row.limit = verdict.limit
      row.key = key
      if (isMemory) row.memory = true
    }
    count(this.#all, !verdicts.some(verdict => !verdict.allowed), decision, place)
  }

  /** The rows that were touched, with what they have counted since the last call. */
  take(): Map<string, Counts> {
    const taken = new Map<string, Counts>()
    if (!this.#any) return taken
    for (const row of this.#rows.values()) {
      if (!row.touched) continue
      taken.set(row.id, row.counts)
      row.counts = noCounts()
      row.touched = false
    }
    taken.set(EVERYTHING, this.#all)
    this.#all = noCounts()
    this.#any = false
    return taken
  }

  /** The notes that the index lacks, or that must be renewed. `nowMs`: monotonic. */
  notes(ids: ReadonlyMap<string, unknown>, nowMs: number): Array<readonly [id: string, facts: ObjectFacts]> {
    const notes: Array<readonly [string, ObjectFacts]> = []
    for (const row of this.#rows.values()) {
      const ageMs = nowMs - row.notedAt
      const changed = row.notedLimit?.quota !== row.limit.quota || row.notedLimit?.burst !== row.limit.burst
      if (ageMs < (changed ? CHANGE_MS : RENEW_MS) || (row.notedAt > 0 && !ids.has(row.id))) continue
      row.notedLimit = row.limit
      row.notedAt = nowMs
      const per = this.keyNames[row.limiter] ?? keyKindOf(row.key)
      notes.push([row.id, limitFacts(row.limiter, row.limit, { per, store: row.memory ? 'memory' : 'redis' })])
    }
    return notes
  }

  /** The server has lost its notes. */
  forgetNotes(): void {
    for (const row of this.#rows.values()) row.notedAt = Number.NEGATIVE_INFINITY
  }

  #rowOf(limiter: string, limit: Limit): Row | undefined {
    let rows = this.#byLimiter.get(limiter)
    if (rows === undefined) {
      if (this.#byLimiter.size >= MOST_ROWS) return undefined
      rows = new WeakMap()
      this.#byLimiter.set(limiter, rows)
    }
    const known = rows.get(limit)
    if (known !== undefined) return known
    const id = limitId(limiter, limit)
    let row = this.#rows.get(id)
    if (row === undefined) {
      if (this.#rows.size >= MOST_ROWS) return undefined
      const notedAt = Number.NEGATIVE_INFINITY
      row = {
        id,
        limiter,
        counts: noCounts(),
        touched: false,
        limit,
        notedLimit: undefined,
        notedAt,
        memory: false,
        key: '',
      }
      this.#rows.set(id, row)
    }
    rows.set(limit, row)
    return row
  }
}

function count(counts: Counts, allowed: boolean, { allowed: passed }: Decision, place: number): void {
  counts[allowed ? ALLOWED : passed ? SHADOW : REFUSED]++
  counts[place]++
}

/** Adds up the sums of several steps, while Redis is unreachable. */
export function addRows(sum: Map<string, Counts>, rows: Iterable<readonly [string, Counts]>): void {
  for (const [id, counts] of rows) {
    const known = sum.get(id)
    if (known === undefined) sum.set(id, counts)
    else addCounts(known, counts)
  }
}
