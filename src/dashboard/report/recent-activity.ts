import { type Clock, monotonicClock } from '../../core/clock.js'
import { getOrMake } from '../../core/get-or-make.js'
import type { Hold } from '../../core/observer.js'
import { TopKeys } from '../../observing/top-keys.js'
import { addDuration, type Histogram } from '../histogram.js'
import {
  type DeliveryRow,
  type HoldRow,
  type KeyRow,
  type LevelRow,
  leaseReference,
  type ProcessDetails,
} from '../process-details.js'

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

interface Deliveries {
  readonly lateness: Histogram
  deliveries: number
  attempts: number
}

/** The recent activity of this process: the busiest keys, the most refused keys, the lateness of queues, current levels. */
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
      row = { lateness: new Map(), deliveries: 0, attempts: 0 }
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

  /** Whether something is held or waits. */
  get isHeld(): boolean {
    for (const { inUse = 0, waiting = 0 } of this.#levels.values()) if (inUse + waiting > 0) return true
    return false
  }

  /** The details to report now. A level that has returned to rest is reported once more, and then no longer. */
  details(): ProcessDetails {
    const now = this.clock.now()
    const levels = this.#levelsWithHolds()
    for (const [id, { inUse = 0, waiting = 0, depth = 0 }] of this.#levels) {
      if (inUse + waiting + depth === 0) this.#levels.delete(id)
    }
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

  /** Rates per second, none too high: a count that decays stands for so many seconds as its life is long, once it has lived that long. */
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
      for (const [queue, { lateness, deliveries, attempts }] of half) {
        const sum = sums.get(queue) ?? { lateness: new Map(), deliveries: 0, attempts: 0 }
        for (const [bucket, count] of lateness) sum.lateness.set(bucket, (sum.lateness.get(bucket) ?? 0) + count)
        sum.deliveries += deliveries
        sum.attempts += attempts
        sums.set(queue, sum)
      }
    }
    return [...sums].map(([queue, sum]) => ({ queue, ...sum }))
  }
}

function round(value: number): number {
  return Number(value.toPrecision(4))
}
