import type { DeliveryRow, Details, KeyRow, LevelRow } from '../details.js'
import { addDuration, type Histogram } from '../histogram.js'
import { type KeyCounts, SpaceSaving } from './key-counts.js'

/** Two halves of so long: what is told is 30 to 60 s old at most. */
const HALF_MS = 30_000
/** Keys of all limiters, and names, that one process tells. */
const MOST_KEYS = 100
const MOST_NAMES = 200

/** What happened in one half. */
class Half {
  readonly asked = new Map<string, KeyCounts>()
  readonly refused = new Map<string, KeyCounts>()
  readonly queues = new Map<string, { lateness: Histogram; deliveries: number; attempts: number }>()

  constructor(readonly since: number) {}
}

/** What happened lately in this process: who asks most, who is refused most, how late queues deliver, what stands where. Times are monotonic. */
export class Recent {
  #young: Half
  #old: Half
  readonly #levels = new Map<string, LevelRow>()

  /** `topKeys`: how many keys of a limiter are told; 0 for none. */
  constructor(
    readonly topKeys: number,
    now: number,
  ) {
    this.#young = new Half(now)
    this.#old = this.#young
  }

  decided(limiter: string, key: string, allowed: boolean): void {
    if (this.topKeys === 0) return
    this.#countsOf(this.#young.asked, limiter)?.add(key)
    if (!allowed) this.#countsOf(this.#young.refused, limiter)?.add(key)
  }

  delivered(queue: string, latenessMs: number, attempt: number): void {
    const { queues } = this.#young
    let row = queues.get(queue)
    if (row === undefined) {
      if (queues.size >= MOST_NAMES) return
      row = { lateness: new Map(), deliveries: 0, attempts: 0 }
      queues.set(queue, row)
    }
    addDuration(row.lateness, latenessMs)
    row.deliveries++
    row.attempts += attempt
  }

  level(row: LevelRow): void {
    const id = `${row.object} ${row.name}`
    if (this.#levels.size < MOST_NAMES || this.#levels.has(id)) this.#levels.set(id, row)
    // What is at rest is told once more, and then not again.
  }

  /** What is to be told now. */
  details(now: number): Details {
    const details: Details = {
      spanMs: Math.max(1000, now - this.#old.since),
      keys: this.#keys(),
      deliveries: this.#deliveries(),
      levels: [...this.#levels.values()],
    }
    for (const [id, { inUse = 0, waiting = 0, depth = 0 }] of this.#levels) {
      if (inUse + waiting + depth === 0) this.#levels.delete(id)
    }
    if (now - this.#young.since >= HALF_MS) {
      this.#old = this.#young
      this.#young = new Half(now)
    }
    return details
  }

  #countsOf(counts: Map<string, KeyCounts>, limiter: string): KeyCounts | undefined {
    let known = counts.get(limiter)
    if (known === undefined) {
      if (counts.size >= MOST_NAMES) return undefined
      known = new SpaceSaving(4 * this.topKeys)
      counts.set(limiter, known)
    }
    return known
  }

  #keys(): Map<string, readonly KeyRow[]> {
    const halves = this.#young === this.#old ? [this.#young] : [this.#young, this.#old]
    const limiters = new Map<string, { rows: KeyRow[]; refused: number; asked: number }>()
    for (const name of new Set(halves.flatMap(half => [...half.asked.keys()]))) {
      const asked = summed(
        halves.map(half => half.asked.get(name)),
        4 * this.topKeys,
      )
      const refused = summed(
        halves.map(half => half.refused.get(name)),
        4 * this.topKeys,
      )
      const chosen = new Set([...most(refused, this.topKeys), ...most(asked, this.topKeys)])
      const rows = [...chosen].map((key): KeyRow => {
        const no = refused.get(key) ?? 0
        return [key, Math.max(asked.get(key) ?? 0, no), no]
      })
      const sumOf = (place: 1 | 2) => rows.reduce((sum, row) => sum + row[place], 0)
      limiters.set(name, { rows, refused: sumOf(2), asked: sumOf(1) })
    }
    // Those who refuse most first; the others have what room is left.
    const worst = [...limiters].sort(([, a], [, b]) => b.refused - a.refused || b.asked - a.asked)
    const keys = new Map<string, readonly KeyRow[]>()
    let room = MOST_KEYS
    for (const [name, { rows }] of worst) {
      if (room <= 0) break
      keys.set(name, rows.slice(0, room))
      room -= rows.length
    }
    return keys
  }

  #deliveries(): DeliveryRow[] {
    const halves = this.#young === this.#old ? [this.#young] : [this.#young, this.#old]
    const sums = new Map<string, { lateness: Histogram; deliveries: number; attempts: number }>()
    for (const half of halves) {
      for (const [queue, { lateness, deliveries, attempts }] of half.queues) {
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

function summed(parts: ReadonlyArray<KeyCounts | undefined>, count: number): Map<string, number> {
  const sums = new Map<string, number>()
  for (const part of parts) {
    for (const { key, count: times } of part?.top(count) ?? []) sums.set(key, (sums.get(key) ?? 0) + times)
  }
  return sums
}

function most(counts: ReadonlyMap<string, number>, count: number): string[] {
  return [...counts]
    .sort(([, a], [, b]) => b - a)
    .slice(0, count)
    .map(([key]) => key)
}
