import { Alarm } from '../core/alarms.js'
import type { Verdict } from '../core/decision.js'
import { type Patience, Wait } from '../core/wait.js'
import type { Charge } from '../store.js'
import { neverFits, type StoreLines, type Turn, tooFar, tooLate } from '../store-lines.js'
import type { MemoryCounts } from './memory-counts.js'

interface Waiter {
  readonly charges: readonly Charge[]
  readonly cost: number
  readonly wait: Wait<Turn>
}

interface MemoryLine {
  readonly name: string
  readonly waiters: Set<Waiter>
  units: number
  /** Rings when the first waiter may fit. */
  readonly alarm: Alarm
}

/**
 * Waiting lines over a memory store, by the same rules as those in Redis, but without messages, because all waiters are
 * in this process.
 */
export class MemoryLines implements StoreLines {
  readonly #lines = new Map<string, MemoryLine>()

  constructor(readonly store: MemoryCounts) {}

  async wait(charges: readonly Charge[], cost: number, patience: Patience): Promise<Turn> {
    const name = this.store.lineName(charges)
    const line = this.#lines.get(name)
    const waitMs = this.store.fitsAfterMs(charges, line?.units ?? 0, cost)
    if (waitMs === Number.POSITIVE_INFINITY) throw neverFits(cost, charges[0].limit)
    if (line === undefined && waitMs === 0) return this.#take(charges, cost)
    if (waitMs > patience.timeoutMs || patience.timeoutMs === 0) throw tooFar(Math.max(1, waitMs))
    return this.#join(line ?? this.#open(name), charges, cost, patience)
  }

  wake(charges: readonly Charge[]): void {
    if (this.#lines.size === 0) return
    const line = this.#lines.get(this.store.lineName(charges))
    if (line !== undefined) this.#walk(line)
  }

  /** Other limiters may share the store and its lines: only a limiter that owns its store closes them. */
  async close(error: Error, ownsStore: boolean): Promise<void> {
    if (!ownsStore) return
    for (const line of [...this.#lines.values()]) {
      for (const waiter of [...line.waiters]) {
        this.#remove(line, waiter)
        waiter.wait.reject(error)
      }
      this.#walk(line)
    }
  }

  #open(name: string): MemoryLine {
    const line: MemoryLine = { name, waiters: new Set(), units: 0, alarm: new Alarm(() => this.#walk(line)) }
    this.#lines.set(name, line)
    return line
  }

  #join(line: MemoryLine, charges: readonly Charge[], cost: number, patience: Patience): Promise<Turn> {
    const leave = () => {
      this.#remove(line, waiter)
      this.#walk(line)
    }
    const timedOut = () => {
      leave()
      return tooLate(patience.timeoutMs)
    }
    const waiter: Waiter = { charges, cost, wait: new Wait<Turn>(patience, timedOut, leave) }
    line.waiters.add(waiter)
    this.#count(line, cost)
    this.#walk(line)
    return waiter.wait.promise
  }

  #remove(line: MemoryLine, waiter: Waiter): void {
    if (line.waiters.delete(waiter)) this.#count(line, -waiter.cost)
  }

  #count(line: MemoryLine, units: number): void {
    line.units += units
    this.store.setWaiting(line.name, line.units)
  }

  /** Grants to the first waiter as long as it fits. */
  #walk(line: MemoryLine): void {
    for (const waiter of line.waiters) {
      const { charges, cost, wait } = waiter
      const waitMs = this.store.fitsAfterMs(charges, 0, cost)
      if (waitMs > 0 && waitMs < Number.POSITIVE_INFINITY) {
        line.alarm.set(performance.now() + waitMs)
        return
      }
      this.#remove(line, waiter)
      if (waitMs === 0) wait.resolve(this.#take(charges, cost))
      else wait.reject(neverFits(cost, charges[0].limit))
    }
    line.alarm.clear()
    if (this.#lines.get(line.name) === line) this.#lines.delete(line.name)
  }

  #take(charges: readonly Charge[], cost: number): Turn {
    const verdicts: readonly Verdict[] = this.store.take(charges, cost)
    return { verdicts: verdicts.map(verdict => ({ ...verdict, delayMs: 0 })), at: this.store.decidedAt }
  }
}
