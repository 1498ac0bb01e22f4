import type { State } from '../../algorithms/registry.js'
import type { Limit } from '../../core/limit.js'
import { shortKey } from '../../core/short-key.js'
import { BlockList, type MemoryTable } from './memory-table.js'

/** How many keys that are not denied to compare, and how many keys to examine to find them. */
const SAMPLE = 8
const REACH = 512

/** An entry to remove: a key's state, or its block. The key as stored. */
interface Victim {
  readonly table: MemoryTable
  readonly kept: string
  readonly isBlock: boolean
}

/**
 * Chooses what to remove from a full store: of a few keys that are not denied now, the one that is first as if never used. If all are
 * denied, the one whose denial ends first. It examines at most 512 keys, so that no call slows down with the size of the store.
 */
class Eviction {
  #looksLeft = REACH
  #seen = 0
  #idle: Victim | undefined
  #idleMs = Number.POSITIVE_INFINITY
  #denied: Victim | undefined
  #deniedMs = Number.POSITIVE_INFINITY

  constructor(
    tables: Iterable<MemoryTable>,
    readonly nowMs: number,
  ) {
    for (const table of largestFirst([...tables])) {
      this.#lookAtStates(table)
      this.#lookAtBlocks(table)
    }
  }

  /** undefined only if the store is empty. */
  get victim(): Victim | undefined {
    return this.#idle ?? this.#denied
  }

  #lookAtStates(table: MemoryTable): void {
    for (let left = table.size; left > 0 && this.#goesOn; left--) {
      const entry = table.advance() ?? table.advance()
      if (entry === undefined) return
      const [kept, slot] = entry
      const limit = table.limitOf(slot)
      const state = table.read(slot)
      const { allowed, retryAfterMs } = table.algorithm.measure(limit, state, this.nowMs, 1).verdict
      const blockedMs = table.blocks?.remainingMsOf(kept, this.nowMs) ?? 0
      const victim = { table, kept, isBlock: false }
      if (!allowed || blockedMs > 0) this.#offerDenied(victim, Math.max(allowed ? 0 : retryAfterMs, blockedMs))
      else this.#offerIdle(victim, table.algorithm.measure(limit, state, this.nowMs, 0).verdict.resetAfterMs)
      this.#looksLeft--
    }
  }

  #lookAtBlocks(table: MemoryTable): void {
    const { blocks } = table
    for (let left = blocks?.size ?? 0; left > 0 && this.#goesOn; left--) {
      const entry = blocks?.advance() ?? blocks?.advance()
      if (entry === undefined) return
      const [kept, untilAt] = entry
      const victim = { table, kept, isBlock: true }
      if (untilAt > this.nowMs) this.#offerDenied(victim, untilAt - this.nowMs)
      else this.#offerIdle(victim, 0)
      this.#looksLeft--
    }
  }

  get #goesOn(): boolean {
    return this.#looksLeft > 0 && this.#seen < SAMPLE
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

/** The largest table first, because it most likely holds a key to remove; the others in any order. */
function largestFirst(tables: MemoryTable[]): MemoryTable[] {
  let largest = 0
  for (let i = 1; i < tables.length; i++) if (entriesOf(tables[i]) > entriesOf(tables[largest])) largest = i
  ;[tables[0], tables[largest]] = [tables[largest], tables[0]]
  return tables
}

function entriesOf(table: MemoryTable): number {
  return table.size + (table.blocks?.size ?? 0)
}

/** Expired keys and blocks are kept for this much longer, so that a clock that steps back a little still finds them. */
const PADDING_MS = 1000
/** Keys examined per insertion: more than one, so that expired keys disappear faster than new ones come. */
const STEPS_PER_INSERTION = 2
const SWEEP_EVERY_MS = 1000
const SWEEP_BUDGET_MS = 1
const STEPS_BETWEEN_LOOKS = 8

/** Keeps the tables of a `MemoryStore` small: removes expired keys a few at a time and makes room when there are too many. */
export class Sweeper {
  #size = 0
  #timer: ReturnType<typeof setTimeout> | undefined
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
    this.#addOne(nowMs)
    table.insert(key, state, limit)
  }

  /** Adds a block. Blocks count as keys do: they stay until they end, and are evicted when there are too many. */
  block(table: MemoryTable, key: string, untilAt: number): void {
    if (!table.blocks?.has(key)) {
      const nowMs = this.now()
      for (let i = 0; i < STEPS_PER_INSERTION; i++) this.#stepBlocks(table, nowMs)
      this.#addOne(nowMs)
    }
    table.blocks ??= new BlockList()
    table.blocks.block(key, untilAt)
  }

  unblock(table: MemoryTable, key: string): void {
    if (table.blocks?.unblock(key)) this.#size--
  }

  /** Removes the state of a key. */
  remove(table: MemoryTable, key: string): void {
    this.#removeKept(table, shortKey(key))
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    for (const table of this.tables.values()) table.abandon()
    this.tables.clear()
    this.#hand = undefined
    this.#size = 0
  }

  /** Examines one key and removes it if it has expired; false at the end of a round. */
  #step(table: MemoryTable, nowMs: number): boolean {
    const entry = table.advance()
    if (entry === undefined) return false
    if (this.#isOver(table, entry[1], nowMs) && this.#isOver(table, entry[1], nowMs - PADDING_MS)) {
      this.#removeKept(table, entry[0])
    }
    return true
  }

  /** Examines one block and removes it if it has ended; false at the end of a round. */
  #stepBlocks({ blocks }: MemoryTable, nowMs: number): boolean {
    const entry = blocks?.advance()
    if (entry === undefined) return false
    if (entry[1] <= nowMs - PADDING_MS) {
      blocks?.remove(entry[0])
      this.#size--
    }
    return true
  }

  #removeKept(table: MemoryTable, kept: string): void {
    if (table.remove(kept)) this.#size--
  }

  /** Makes room for one more entry if the store is full. */
  #addOne(nowMs: number): void {
    if (this.#size >= this.maxKeys) this.#evict(nowMs)
    this.#size++
    this.#timer ??= this.#startTimer()
  }

  #evict(nowMs: number): void {
    const { victim } = new Eviction(this.tables.values(), nowMs)
    if (victim === undefined) return
    if (!victim.isBlock) this.#removeKept(victim.table, victim.kept)
    else {
      victim.table.blocks?.remove(victim.kept)
      this.#size--
    }
  }

  // Checked at the present time first: checking a long log at an earlier time copies it.
  #isOver(table: MemoryTable, slot: number, nowMs: number): boolean {
    return this.#resetAfterMs(table, slot, nowMs) === 0
  }

  #resetAfterMs(table: MemoryTable, slot: number, nowMs: number): number {
    return table.algorithm.measure(table.limitOf(slot), table.read(slot), nowMs, 0).verdict.resetAfterMs
  }

  // Unreferenced, so that pending sweeps do not keep the process alive.
  #startTimer(): ReturnType<typeof setTimeout> {
    const timer = setTimeout(() => this.#sweep(), SWEEP_EVERY_MS)
    timer.unref?.()
    return timer
  }

  #sweep(): void {
    this.#timer = undefined
    const nowMs = this.now()
    const until = performance.now() + SWEEP_BUDGET_MS
    for (let left = this.tables.size; left > 0; left--) {
      this.#sweepTable(this.#nextTable(), nowMs, until)
      if (performance.now() > until) break
    }
    if (this.#size > 0) this.#timer = this.#startTimer()
  }

  /** Each sweep begins behind the last one's table: one that takes all the time delays the others, but does not keep them from being swept. */
  #nextTable(): [identity: string, table: MemoryTable] {
    for (;;) {
      this.#hand ??= this.tables.entries()
      const step = this.#hand.next()
      if (!step.done) return step.value
      this.#hand = undefined
    }
  }

  #sweepTable([identity, table]: [string, MemoryTable], nowMs: number, until: number): void {
    let states = true
    let blocks = true
    do {
      states = states && this.#sweepSome(table, nowMs)
      blocks = blocks && this.#sweepSomeBlocks(table, nowMs)
    } while ((states || blocks) && performance.now() <= until)
    if (table.blocks?.size === 0) table.blocks = undefined
    // A note outlives its key.
    if (table.size > 0 || table.blocks !== undefined || !table.notes.isOver(nowMs)) return
    table.abandon()
    this.tables.delete(identity)
  }

  #sweepSome(table: MemoryTable, nowMs: number): boolean {
    for (let i = 0; i < STEPS_BETWEEN_LOOKS; i++) if (!this.#step(table, nowMs)) return false
    return true
  }

  #sweepSomeBlocks(table: MemoryTable, nowMs: number): boolean {
    for (let i = 0; i < STEPS_BETWEEN_LOOKS; i++) if (!this.#stepBlocks(table, nowMs)) return false
    return true
  }
}
