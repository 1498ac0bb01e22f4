import type { State } from '../algorithms/registry.js'
import type { Limit } from '../core/limit.js'
import { BudgetedSweep, STEPS_PER_INSERTION } from '../core/maps.js'
import { shortKey } from '../core/short-key.js'
import { BlockList, type MemoryTable, type SweptKeys } from './memory-table.js'

/** How many keys that are not denied to compare, and how many keys to examine to find them. */
const SAMPLE = 8
const REACH = 512

/** An entry to remove: a key's state, or its block. The key as stored. */
interface Victim {
  readonly keys: SweptKeys
  readonly kept: string
}

/**
 * Chooses what to remove from a full store: of a few keys that are not denied now, the one that is first as if never
 * used. If all are denied, the one whose denial ends first. It examines at most 512 keys and tables, so that no call
 * slows down with the size of the store.
 */
class Eviction {
  #looksLeft = REACH
  #seen = 0
  #idle: Victim | undefined
  #idleMs = Number.POSITIVE_INFINITY
  #denied: Victim | undefined
  #deniedMs = Number.POSITIVE_INFINITY

  /** Until a key is found, it goes on: `tables` are in turn, and the store is not empty. */
  constructor(
    tables: Iterable<MemoryTable>,
    readonly nowMs: number,
  ) {
    for (const table of tables) {
      this.#lookAt(table)
      if (table.blocks !== undefined) this.#lookAt(table.blocks)
      this.#looksLeft--
      if (!this.#goesOn) return
    }
  }

  /** undefined only if the store is empty. */
  get victim(): Victim | undefined {
    return this.#idle ?? this.#denied
  }

  #lookAt(keys: SweptKeys): void {
    for (let left = keys.size; left > 0 && this.#goesOn; left--) {
      const entry = keys.advance() ?? keys.advance()
      if (entry === undefined) return
      const [kept, number] = entry
      const deniedMs = keys.deniedMs(kept, number, this.nowMs)
      if (deniedMs > 0) this.#offerDenied({ keys, kept }, deniedMs)
      else this.#offerIdle({ keys, kept }, keys.lastsMs(number, this.nowMs))
      this.#looksLeft--
    }
  }

  get #goesOn(): boolean {
    return (this.#looksLeft > 0 || this.victim === undefined) && this.#seen < SAMPLE
  }

  #offerIdle(victim: Victim, resetAfterMs: number): void {
    this.#seen++
    if (this.#idle !== undefined && resetAfterMs >= this.#idleMs) return
    this.#idle = victim
    this.#idleMs = resetAfterMs
  }

  #offerDenied(victim: Victim, endsAfterMs: number): void {
    if (this.#denied !== undefined && endsAfterMs >= this.#deniedMs) return
    this.#denied = victim
    this.#deniedMs = endsAfterMs
  }
}

/** Expired keys and blocks are kept for this much longer, so that a clock that steps back a little still finds them. */
const PADDING_MS = 1000
const STEPS_BETWEEN_LOOKS = 8

/**
 * Keeps the tables of a `MemoryStore` small: removes expired keys a few at a time and makes room when there are too
 * many.
 */
export class Sweeper {
  #size = 0
  readonly #sweep = new BudgetedSweep(until => this.#sweepUntil(until))
  /** Between the table that was swept last and the next one. */
  #hand: MapIterator<[string, MemoryTable]> | undefined

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
    this.#addOne(table, nowMs)
    table.insert(key, state, limit)
  }

  /**
   * A table is made. Two others are swept a little, and go if they hold nothing any more: limiters and names that come
   * and go leave no more tables behind than are in use. Who holds a table must see whether it was abandoned.
   */
  makingTable(): void {
    if (this.tables.size === 0) return
    const nowMs = this.now()
    for (let i = 0; i < STEPS_PER_INSERTION && this.tables.size > 0; i++) this.#visit(this.#nextTable(), nowMs)
  }

  /** Adds a block. Blocks count as keys do: they stay until they end, and are evicted when there are too many. */
  block(table: MemoryTable, key: string, untilAt: number): void {
    if (!table.blocks?.has(key)) {
      const nowMs = this.now()
      for (let i = 0; i < STEPS_PER_INSERTION; i++) if (table.blocks !== undefined) this.#step(table.blocks, nowMs)
      this.#addOne(table, nowMs)
    }
    table.blocks ??= new BlockList()
    table.blocks.block(key, untilAt)
  }

  unblock(table: MemoryTable, key: string): void {
    if (table.blocks !== undefined) this.#remove(table.blocks, shortKey(key))
  }

  /** Removes the state of a key. */
  remove(table: MemoryTable, key: string): void {
    this.#remove(table, shortKey(key))
  }

  close(): void {
    this.#sweep.stop()
    for (const table of this.tables.values()) table.abandon()
    this.tables.clear()
    this.#hand = undefined
    this.#size = 0
  }

  /** Examines one entry and removes it if it no longer matters; false at the end of a round. */
  #step(keys: SweptKeys, nowMs: number): boolean {
    const entry = keys.advance()
    if (entry === undefined) return false
    const [kept, number] = entry
    // Checked at the present time first: checking a long log at an earlier time copies it.
    if (keys.lastsMs(number, nowMs) === 0 && keys.lastsMs(number, nowMs - PADDING_MS) === 0) this.#remove(keys, kept)
    return true
  }

  #remove(keys: SweptKeys, kept: string): void {
    if (keys.remove(kept)) this.#size--
  }

  /** Makes room for one more entry if the store is full. */
  #addOne(to: MemoryTable, nowMs: number): void {
    if (this.#size >= this.maxKeys) this.#evict(to, nowMs)
    this.#size++
    this.#sweep.start()
  }

  #evict(to: MemoryTable, nowMs: number): void {
    const { victim } = new Eviction(this.#inTurn(to), nowMs)
    if (victim !== undefined) this.#remove(victim.keys, victim.kept)
  }

  /** This table, and then each other one, beginning behind the one that was looked at last. */
  *#inTurn(first: MemoryTable): Generator<MemoryTable> {
    yield first
    for (let left = this.tables.size; left > 0; left--) {
      const [, table] = this.#nextTable()
      if (table !== first) yield table
    }
  }

  /** True if something is left to sweep. */
  #sweepUntil(until: number): boolean {
    const nowMs = this.now()
    for (let left = this.tables.size; left > 0; left--) {
      this.#sweepTable(this.#nextTable(), nowMs, until)
      if (performance.now() > until) break
    }
    return this.tables.size > 0
  }

  /**
   * Each sweep begins behind the last one's table: one that takes all the time delays the others, but does not keep
   * them from being swept.
   */
  #nextTable(): [identity: string, table: MemoryTable] {
    for (;;) {
      this.#hand ??= this.tables.entries()
      const step = this.#hand.next()
      if (!step.done) return step.value
      this.#hand = undefined
    }
  }

  #sweepTable(entry: [identity: string, table: MemoryTable], nowMs: number, until: number): void {
    let left = keysOf(entry[1])
    do left = left.filter(keys => this.#sweepSome(keys, nowMs))
    while (left.length > 0 && performance.now() <= until)
    this.#dropIfUnused(entry, nowMs)
  }

  /** As `#sweepTable`, but only a few keys. */
  #visit(entry: [identity: string, table: MemoryTable], nowMs: number): void {
    for (const keys of keysOf(entry[1])) this.#sweepSome(keys, nowMs)
    this.#dropIfUnused(entry, nowMs)
  }

  #dropIfUnused([identity, table]: [identity: string, table: MemoryTable], nowMs: number): void {
    if (table.blocks?.size === 0) table.blocks = undefined
    // A note outlives its key.
    if (table.size > 0 || table.blocks !== undefined || !table.notes.isOver(nowMs)) return
    table.abandon()
    this.tables.delete(identity)
  }

  #sweepSome(keys: SweptKeys, nowMs: number): boolean {
    for (let i = 0; i < STEPS_BETWEEN_LOOKS; i++) if (!this.#step(keys, nowMs)) return false
    return true
  }
}

function keysOf(table: MemoryTable): SweptKeys[] {
  return table.blocks === undefined ? [table] : [table, table.blocks]
}
