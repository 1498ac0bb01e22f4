import type { MemoryTable } from './memory-table.js'

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
export class Eviction {
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
