import type { State } from '../../algorithms/registry.js'
import type { Limit } from '../../core/limit.js'
import type { MemoryTable } from './table.js'

/** An expired key is kept a little longer, so that a clock that steps back a little still finds what was spent. */
const PADDING_MS = 1000
/** What one insertion looks at: more than one, so that the hand overtakes the rubbish. */
const STEPS_PER_INSERTION = 2
/** How many keys are compared to find one to evict, and how far to look for one that may be evicted at all. */
const EVICTION_SAMPLE = 8
const EVICTION_REACH = 512
const SWEEP_EVERY_MS = 1000
const SWEEP_BUDGET_MS = 1
const STEPS_BETWEEN_LOOKS = 8

/** Keeps the tables of a `MemoryStore` small: lets expired keys go a few at a time and makes room when there are too many. */
export class Sweeper {
  #size = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(
    readonly tables: Map<string, MemoryTable>,
    readonly maxKeys: number,
    readonly now: () => number,
  ) {}

  get size(): number {
    return this.#size
  }

  insert(table: MemoryTable, key: string, state: State, limit: Limit): void {
    const nowMs = this.now()
    for (let i = 0; i < STEPS_PER_INSERTION; i++) this.#step(table, nowMs)
    if (this.#size >= this.maxKeys && !this.#makeRoom(nowMs)) return
    table.insert(key, state, limit)
    this.#size++
    this.#timer ??= this.#startTimer()
  }

  remove(table: MemoryTable, key: string): void {
    if (table.remove(key)) this.#size--
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    for (const table of this.tables.values()) table.abandoned = true
    this.tables.clear()
    this.#size = 0
  }

  /** Looks at one key and lets it go if it has expired; false at the end of a round. */
  #step(table: MemoryTable, nowMs: number): boolean {
    const entry = table.advance()
    if (entry === undefined) return false
    if (this.#isOver(table, entry[1], nowMs) && this.#isOver(table, entry[1], nowMs - PADDING_MS)) {
      this.remove(table, entry[0])
    }
    return true
  }

  // Asked of now first: a long log is copied to look at it from before its end.
  #isOver(table: MemoryTable, slot: number, nowMs: number): boolean {
    return this.#resetAfterMs(table, slot, nowMs) === 0
  }

  #resetAfterMs(table: MemoryTable, slot: number, nowMs: number): number {
    return table.algorithm.measure(table.limitOf(slot), table.read(slot), nowMs, 0).verdict.resetAfterMs
  }

  /** Evicts, of a few keys that are not denied now, the one that is soonest as if never used. */
  #makeRoom(nowMs: number): boolean {
    const table = this.#largestTable()
    let victim: string | undefined
    let soonest = Number.POSITIVE_INFINITY
    let seen = 0
    for (let reach = 0; reach < EVICTION_REACH && seen < EVICTION_SAMPLE; reach++) {
      const entry = table.advance()
      if (entry === undefined) continue
      if (!table.algorithm.measure(table.limitOf(entry[1]), table.read(entry[1]), nowMs, 1).verdict.allowed) continue
      seen++
      const resetAfterMs = this.#resetAfterMs(table, entry[1], nowMs)
      if (resetAfterMs >= soonest) continue
      soonest = resetAfterMs
      victim = entry[0]
    }
    if (victim === undefined) return false
    this.remove(table, victim)
    return true
  }

  #largestTable(): MemoryTable {
    let largest: MemoryTable | undefined
    for (const table of this.tables.values()) if (largest === undefined || table.size > largest.size) largest = table
    return largest!
  }

  // Unreferenced: rubbish is no reason for a process to stay.
  #startTimer(): ReturnType<typeof setTimeout> {
    const timer = setTimeout(() => this.#sweep(), SWEEP_EVERY_MS)
    timer.unref?.()
    return timer
  }

  #sweep(): void {
    this.#timer = undefined
    const nowMs = this.now()
    const until = performance.now() + SWEEP_BUDGET_MS
    for (const [identity, table] of this.tables) {
      while (this.#sweepSome(table, nowMs)) if (performance.now() > until) break
      if (table.size === 0 && table.blocks === undefined) {
        table.abandoned = true
        this.tables.delete(identity)
      }
      if (performance.now() > until) break
    }
    if (this.#size > 0) this.#timer = this.#startTimer()
  }

  #sweepSome(table: MemoryTable, nowMs: number): boolean {
    for (let i = 0; i < STEPS_BETWEEN_LOOKS; i++) if (!this.#step(table, nowMs)) return false
    return true
  }
}
