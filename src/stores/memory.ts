import type { State } from '../algorithms/registry.js'
import { type Clock, systemClock } from '../clock.js'
import type { Verdict } from '../decision.js'
import { PolicyError, shown } from '../errors.js'
import type { Limit } from '../limit.js'
import { type Charge, DEFAULT_LIMITER, type Store } from '../store.js'
import { Sweeper } from './memory-sweeper.js'
import { MemoryTable } from './memory-table.js'

export interface MemoryStoreOptions {
  /** Default: the system's time. */
  clock?: Clock
  /**
   * Most keys held, counted once per limit; integer ≥ 1, default 1 000 000. When full, keys nearest to being as if never
   * used go first; a key that is denied now is never evicted. If all are denied, a new key is judged but not remembered.
   */
  maxKeys?: number
}

/**
 * State in this process: exact for one process, and needs nothing else. Every call is synchronous. Expired keys are swept a few
 * at a time, by the traffic itself and by an unreferenced timer that keeps no process alive.
 */
export class MemoryStore implements Store {
  readonly clock: Clock
  readonly #sweeper: Sweeper
  readonly #tables = new Map<string, MemoryTable>()
  readonly #known = new WeakMap<Limit, MemoryTable[]>()
  #last: MemoryTable | undefined
  #lastLimit: Limit | undefined

  constructor(options: MemoryStoreOptions = {}) {
    const { clock = systemClock, maxKeys = 1_000_000 } = options
    if (typeof clock?.now !== 'function') {
      throw new PolicyError(`MemoryStore: clock ${shown(clock)}: expected an object with now(), like new ManualClock()`)
    }
    if (!(Number.isSafeInteger(maxKeys) && maxKeys >= 1)) {
      throw new PolicyError(`MemoryStore: maxKeys ${shown(maxKeys)}: expected an integer ≥ 1, like 1_000_000`)
    }
    this.clock = clock
    this.#sweeper = new Sweeper(this.#tables, maxKeys, () => this.#now())
  }

  /** Keys held, counted once per limit. */
  get size(): number {
    return this.#sweeper.size
  }

  consume(charges: readonly Charge[], cost: number): readonly Verdict[] {
    const nowMs = this.#now()
    return charges.length === 1 ? [this.#consumeOne(charges[0], cost, nowMs)] : this.#consumeAll(charges, cost, nowMs)
  }

  peek(charges: readonly Charge[], cost: number): readonly Verdict[] {
    const nowMs = this.#now()
    const verdicts = charges.map(charge => this.#measure(charge, nowMs, cost).verdict)
    if (verdicts.every(verdict => verdict.allowed)) return verdicts
    return verdicts.map((verdict, i) => (verdict.allowed ? this.#measure(charges[i], nowMs, 0).verdict : verdict))
  }

  refund(charges: readonly Charge[], cost: number): void {
    const nowMs = this.#now()
    for (const { key, limit, limiter } of charges) {
      const table = this.#table(limit, limiter)
      const slot = table.slotOf(key)
      if (slot === undefined) continue
      const next = table.algorithm.refund(limit, table.read(slot), nowMs, cost)
      if (next !== undefined) table.write(slot, next, limit)
    }
  }

  reset(charges: readonly Charge[]): void {
    for (const { key, limit, limiter } of charges) this.#sweeper.remove(this.#table(limit, limiter), key)
  }

  /** Forgets everything and stops sweeping. */
  close(): void {
    this.#sweeper.close()
    this.#last = undefined
  }

  #now(): number {
    return Math.floor(this.clock.now())
  }

  #consumeOne({ key, limit, limiter }: Charge, cost: number, nowMs: number): Verdict {
    const table = this.#table(limit, limiter)
    const slot = table.slotOf(key)
    const state = slot === undefined ? undefined : table.read(slot)
    const { verdict, next } = table.algorithm.measure(limit, state, nowMs, cost)
    if (next !== state && next !== undefined) this.#commit(table, key, slot, next, limit)
    return verdict
  }

  #consumeAll(charges: readonly Charge[], cost: number, nowMs: number): readonly Verdict[] {
    let measured = charges.map(charge => this.#measure(charge, nowMs, cost))
    if (!measured.every(({ verdict }) => verdict.allowed)) {
      // Nothing is spent, so a limit that would have allowed it is told as it stands.
      measured = measured.map((one, i) => (one.verdict.allowed ? this.#measure(charges[i], nowMs, 0) : one))
    }
    return measured.map(({ table, slot, state, verdict, next }, i) => {
      if (next !== state && next !== undefined) this.#commit(table, charges[i].key, slot, next, charges[i].limit)
      return verdict
    })
  }

  #measure({ key, limit, limiter }: Charge, nowMs: number, cost: number) {
    const table = this.#table(limit, limiter)
    const slot = table.slotOf(key)
    const state = slot === undefined ? undefined : table.read(slot)
    return { table, slot, state, ...table.algorithm.measure(limit, state, nowMs, cost) }
  }

  #commit(table: MemoryTable, key: string, slot: number | undefined, next: State, limit: Limit): void {
    if (slot === undefined) this.#sweeper.insert(table, key, next, limit)
    else table.write(slot, next, limit)
  }

  #table(limit: Limit, limiter: string | undefined): MemoryTable {
    const last = this.#last
    if (last !== undefined && this.#lastLimit === limit && last.limiter === limiter && !last.abandoned) return last
    const table = this.#findTable(limit, limiter)
    this.#last = table
    this.#lastLimit = limit
    return table
  }

  #findTable(limit: Limit, limiter: string | undefined): MemoryTable {
    const known = this.#known.get(limit)?.filter(table => !table.abandoned) ?? []
    const found = known.find(table => table.limiter === limiter)
    if (found) return found
    const identity = JSON.stringify([limiter ?? DEFAULT_LIMITER, limit.name, limit.algorithm, limit.windowMs])
    let table = this.#tables.get(identity)
    if (table === undefined) {
      table = new MemoryTable(limiter, limit.algorithm)
      this.#tables.set(identity, table)
    }
    this.#known.set(limit, [...known, table])
    return table
  }
}
