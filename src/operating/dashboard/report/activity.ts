import { isIP } from 'node:net'
import { type Clock, monotonicClock } from '../../../limiter/core/clock.js'
import type { Decision } from '../../../limiter/core/decision.js'
import type { Limit } from '../../../limiter/core/limit.js'
import { getOrMake } from '../../../limiter/core/maps.js'
import type { Hold } from '../../../limiter/core/observer.js'
import { prefixInRedis } from '../../../redis/store/redis-counts.js'
import { type CountedIn, limitFacts, limitId, type ObjectFacts } from '../../object-index.js'
import { TopKeys } from '../../observing/top-keys.js'
import {
  ALLOWED,
  addCounts,
  addDeliveries,
  addDuration,
  type Counts,
  type Deliveries,
  noCounts,
  noDeliveries,
  REFUSED,
  SHADOW,
  sourceIndex,
} from '../counts.js'
import {
  type DeliveryRow,
  type HoldRow,
  type KeyRow,
  type LevelRow,
  leaseReference,
  type ProcessDetails,
  TOTAL_ROW,
} from '../records.js'

/** What a limiter counts, guessed from one of its keys: an address, or a network of IPv6, is the default key. */
function keyKindOf(key: string): string {
  const [address, bits] = key.split('/')
  return isIP(address) > 0 && (bits === undefined || /^\d{1,3}$/.test(bits)) ? 'per address' : 'per key'
}

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
  notedStore: CountedIn | undefined
  /** Where it is counted, as far as its decisions have told. A store that is not known is not taken for Redis. */
  store: CountedIn
  key: string
}

/**
 * Notes are renewed after so long, and changed at most once in so long: limits of single keys may differ with each
 * decision.
 */
const RENEW_MS = 3_600_000
const CHANGE_MS = 10_000

/** The sums of a process's decisions, for each limit. */
export class DecisionSums {
  readonly #byLimiter = new Map<string, WeakMap<Limit, Row>>()
  readonly #rows = new Map<string, Row>()
  #all = noCounts()
  #any = false

  constructor(
    /** Of the keys that the dashboard can reach. */
    readonly prefix: string,
    readonly keyNames: Readonly<Record<string, string>>,
  ) {}

  /** Whether anything was decided since `take`. */
  get any(): boolean {
    return this.#any
  }

  add(decision: Decision, limiter: string): void {
    this.#any = true
    const { verdicts, source, key } = decision
    const place = sourceIndex(source)
    const isElsewhere = source === 'memory' || source === 'postgres' || source === 'sqlite'
    for (const verdict of verdicts) {
      // Another limit refuses the request: this one spends nothing, and has let nobody through.
      if (verdict.allowed && !decision.allowed) continue
      const row = this.#rowOf(limiter, verdict.limit)
      if (row === undefined) continue
      count(row.counts, verdict.allowed, decision, place)
      row.touched = true
      row.limit = verdict.limit
      row.key = key
      if (isElsewhere) row.store = source
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
    taken.set(TOTAL_ROW, this.#all)
    this.#all = noCounts()
    this.#any = false
    return taken
  }

  /** The notes that the index lacks, or that must be renewed. `nowMs`: monotonic. */
  notes(ids: ReadonlyMap<string, unknown>, nowMs: number): Array<readonly [id: string, facts: ObjectFacts]> {
    const notes: Array<readonly [string, ObjectFacts]> = []
    for (const row of this.#rows.values()) {
      if (row.store === 'own') row.store = this.#redisOf(row.limit) ?? 'own'
      if (row.store !== row.notedStore) row.notedAt = Number.NEGATIVE_INFINITY
      const ageMs = nowMs - row.notedAt
      const changed = row.notedLimit?.quota !== row.limit.quota || row.notedLimit?.burst !== row.limit.burst
      if (ageMs < (changed ? CHANGE_MS : RENEW_MS) || (row.notedAt > 0 && !ids.has(row.id))) continue
      row.notedLimit = row.limit
      row.notedAt = nowMs
      row.notedStore = row.store
      const per = this.keyNames[row.limiter] ?? keyKindOf(row.key)
      notes.push([row.id, limitFacts(row.limiter, row.limit, { per, store: row.store })])
    }
    return notes
  }

  /** The server has lost its notes. */
  forgetNotes(): void {
    for (const row of this.#rows.values()) row.notedAt = Number.NEGATIVE_INFINITY
  }

  /** Where in Redis a limit is counted; undefined: not in Redis. */
  #redisOf(limit: Limit): CountedIn | undefined {
    const prefix = prefixInRedis(limit)
    if (prefix === undefined) return undefined
    return prefix === this.prefix ? 'redis' : 'elsewhere'
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
        notedStore: undefined,
        store: 'own',
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

/** A count halves in this time. */
const HALF_LIFE_MS = 20_000
const LIFE_MS = HALF_LIFE_MS / Math.LN2
/** Most keys, of all limiters, and most names that one process reports. */
const MOST_KEYS = 100
const MOST_NAMES = 200
/** Most holds of one name, and of all, that one process reports: the longest held. */
const MOST_HOLDS_EACH = 20
const MOST_HOLDS = 200
/** Deliveries are of the last half minute or two. */
const HALF_MS = 30_000

/** The keys of one limiter. */
interface Callers {
  readonly since: number
  readonly asked: TopKeys
  readonly refused: TopKeys
}

/**
 * The recent activity of this process: the busiest keys, the most refused keys, the lateness of queues, current levels.
 */
export class RecentActivity {
  readonly #callers = new Map<string, Callers>()
  readonly #levels = new Map<string, LevelRow>()
  readonly #holds = new Map<string, ReadonlySet<Hold>>()
  #young = new Map<string, Deliveries>()
  #old = this.#young
  #youngSince: number

  /** `topKeys`: how many keys of a limiter are reported; 0 for none. */
  constructor(
    readonly topKeys: number,
    readonly clock: Clock = monotonicClock,
  ) {
    this.#youngSince = clock.now()
  }

  decided(limiter: string, key: string, allowed: boolean): void {
    if (this.topKeys === 0) return
    let callers = this.#callers.get(limiter)
    if (callers === undefined) {
      if (this.#callers.size >= MOST_NAMES) return
      const sketch = () => new TopKeys({ size: 4 * this.topKeys, halfLifeMs: HALF_LIFE_MS, clock: this.clock })
      callers = { since: this.clock.now(), asked: sketch(), refused: sketch() }
      this.#callers.set(limiter, callers)
    }
    callers.asked.add(key)
    if (!allowed) callers.refused.add(key)
  }

  delivered(queue: string, latenessMs: number, attempt: number): void {
    let row = this.#young.get(queue)
    if (row === undefined) {
      if (this.#young.size >= MOST_NAMES) return
      row = noDeliveries()
      this.#young.set(queue, row)
    }
    addDuration(row.lateness, latenessMs)
    row.deliveries++
    row.attempts += attempt
  }

  level(row: LevelRow): void {
    const id = `${row.object} ${row.name}`
    if (this.#levels.size < MOST_NAMES || this.#levels.has(id)) this.#levels.set(id, row)
  }

  holding(object: string, name: string, holds: ReadonlySet<Hold>): void {
    if (this.#holds.size < MOST_NAMES) this.#holds.set(`${object} ${name}`, holds)
  }

  /** Whether something is held, used or waits. */
  get isHeld(): boolean {
    for (const level of this.#levels.values()) if (levelSum({ ...level, depth: 0 }) > 0) return true
    return false
  }

  /** The details to report now. A level that has returned to rest is reported once more, and then no longer. */
  details(): ProcessDetails {
    const now = this.clock.now()
    const levels = this.#levelsWithHolds()
    for (const [id, level] of this.#levels) if (levelSum(level) === 0) this.#levels.delete(id)
    const details = { keys: this.#keys(now), deliveries: this.#deliveries(), levels }
    if (now - this.#youngSince >= HALF_MS) {
      this.#old = this.#young
      this.#young = new Map()
      this.#youngSince = now
    }
    return details
  }

  #levelsWithHolds(): LevelRow[] {
    const longest: Array<{ id: string; row: HoldRow }> = []
    for (const id of this.#levels.keys()) {
      let count = 0
      for (const { lease = '', permits, since } of this.#holds.get(id) ?? []) {
        if (++count > MOST_HOLDS_EACH) break
        longest.push({ id, row: [leaseReference(lease), permits, since] })
      }
    }
    if (longest.length > MOST_HOLDS) longest.sort((a, b) => a.row[2] - b.row[2])
    const told = new Map<string, HoldRow[]>()
    for (const { id, row } of longest.slice(0, MOST_HOLDS)) getOrMake(told, id, () => []).push(row)
    return [...this.#levels].map(([id, level]) => {
      const holds = told.get(id) ?? []
      const moreHolds = (this.#holds.get(id)?.size ?? 0) - holds.length
      return { ...level, ...(holds.length > 0 && { holds }), ...(moreHolds > 0 && { moreHolds }) }
    })
  }

  /**
   * Rates per second, none too high: a count that decays stands for so many seconds as its life is long, once it has
   * lived that long.
   */
  #keys(now: number): Map<string, readonly KeyRow[]> {
    const limiters: Array<{ name: string; rows: KeyRow[]; refused: number; asked: number }> = []
    for (const [name, { since, asked, refused }] of this.#callers) {
      const seconds = (LIFE_MS * (1 - Math.exp(-Math.max(1000, now - since) / LIFE_MS))) / 1000
      const rates = new Map<string, [asked: number, refused: number]>()
      for (const { key, count, error } of refused.top(this.topKeys)) {
        const rate = (count - error) / seconds
        rates.set(key, [rate, rate])
      }
      for (const { key, count, error } of asked.top(this.topKeys)) {
        const refusals = rates.get(key)?.[1] ?? 0
        rates.set(key, [Math.max(refusals, (count - error) / seconds), refusals])
      }
      const rows: KeyRow[] = []
      let [sumAsked, sumRefused] = [0, 0]
      for (const [key, [asks, refusals]] of rates) {
        if (asks < 0.01) continue
        rows.push([key, round(asks), round(refusals)])
        sumAsked += asks
        sumRefused += refusals
      }
      if (rows.length > 0) limiters.push({ name, rows, refused: sumRefused, asked: sumAsked })
      else this.#callers.delete(name)
    }
    // The most refused keys come first; the busiest fill the remaining room.
    limiters.sort((a, b) => b.refused - a.refused || b.asked - a.asked)
    const keys = new Map<string, readonly KeyRow[]>()
    let room = MOST_KEYS
    for (const { name, rows } of limiters) {
      if (room <= 0) break
      keys.set(name, rows.slice(0, room))
      room -= rows.length
    }
    return keys
  }

  #deliveries(): DeliveryRow[] {
    const sums = new Map<string, Deliveries>()
    for (const half of new Set([this.#young, this.#old])) {
      for (const [queue, row] of half) addDeliveries(sums, queue, row)
    }
    return [...sums].map(([queue, sum]) => ({ queue, ...sum }))
  }
}

function round(value: number): number {
  return Number(value.toPrecision(4))
}

/** 0: the level is at rest. */
function levelSum({ inUse = 0, waiting = 0, depth = 0, used = 0 }: LevelRow): number {
  return inUse + waiting + depth + used
}
