import { asyncDispose } from '../core/async-dispose.js'
import { type Clock, systemClock } from '../core/clock.js'
import type { Verdict } from '../core/decision.js'
import { checkClock, checkInteger, checkOptions, type OptionNames } from '../core/options.js'
import { keepCounts } from '../port.js'
import type { Charge, ChargeReceipt, Store } from '../store.js'
import { MemoryCounts } from './memory-counts.js'
import { MemoryLines } from './memory-lines.js'

/** Options of a `MemoryStore`. */
export interface MemoryStoreOptions {
  /** Default: the system clock. In tests a `ManualClock`. */
  clock?: Clock
  /**
   * Most stored keys and blocks, each counted once per limit; integer ≥ 1, default 1 000 000. A full store removes a
   * key that is first as if never used; keys that are denied now only when all are, the one whose denial ends first. To
   * find it, at most 512 keys are examined. A key longer than 200 characters is stored as a hash, so that memory is
   * bounded in bytes as well.
   */
  maxKeys?: number
}

const OPTIONS: OptionNames<MemoryStoreOptions> = { clock: true, maxKeys: true }

/**
 * State in this process: exact for one process, without dependencies. Every call is synchronous. Expired keys are
 * removed a few at a time, by the calls themselves and by an unreferenced timer that does not keep the process alive.
 */
export class MemoryStore implements Store {
  readonly clock: Clock
  readonly countsCalendars = true
  readonly #counts: MemoryCounts

  /** Throws `PolicyError` for options that mean nothing. */
  constructor(options: MemoryStoreOptions = {}) {
    checkOptions('MemoryStore', options, OPTIONS, '{ maxKeys: 100_000 }')
    const { clock = systemClock, maxKeys = 1_000_000 } = options
    checkClock(clock, 'MemoryStore: clock')
    checkInteger(maxKeys, 'MemoryStore: maxKeys', '1_000_000', 1)
    this.clock = clock
    this.#counts = new MemoryCounts(clock, maxKeys)
    const lines = new MemoryLines(this.#counts)
    // All limiters over the store share them.
    this.#counts.lines = () => lines
    keepCounts(this, this.#counts, MemoryStore.prototype)
  }

  /** The number of stored keys and blocks, each counted once per limit. */
  get size(): number {
    return this.#counts.size
  }

  /** Spends `cost` from all charges or from none. */
  consume(charges: readonly Charge[], cost: number): readonly Verdict[] {
    return this.#counts.consume(charges, cost)
  }

  peek(charges: readonly Charge[], cost: number): readonly Verdict[] {
    return this.#counts.peek(charges, cost)
  }

  refund(charges: readonly Charge[], cost: number): void {
    this.#counts.refund(charges, cost)
  }

  giveBack(receipts: readonly ChargeReceipt[], units: number): void {
    this.#counts.giveBack(receipts, units)
  }

  charge(charges: readonly Charge[], cost: number): void {
    this.#counts.charge(charges, cost)
  }

  block(charges: readonly Charge[], forMs: number): void {
    this.#counts.block(charges, forMs)
  }

  /** Makes each key as if it was never used under its limit; blocks stay. */
  reset(charges: readonly Charge[]): void {
    this.#counts.reset(charges)
  }

  /** Forgets everything and stops sweeping. */
  async close(): Promise<void> {
    this.#counts.close()
  }

  /** As `close`, for `await using`. */
  [asyncDispose](): Promise<void> {
    return this.close()
  }
}
