import type { Decision, Verdict } from '../core/decision.js'
import { StoreError } from '../core/errors.js'
import { getOrMake } from '../core/maps.js'
import { neverFits, type StoreLines, type Turn, tooFar, tooLate } from '../stores/lines.js'
import type { MemoryStore } from '../stores/memory/memory-store.js'
import type { Charge } from '../stores/store.js'
import { Alarm } from '../waiting/alarms.js'
import { type Patience, Wait } from '../waiting/wait.js'
import type { LimiterKey } from './key.js'

interface Waiting {
  readonly cost: number
  readonly patience: Patience
  readonly wait: Wait<Decision>
}

/** The waiters for one key. Only the first asks the store. */
interface AskingLine {
  readonly key: LimiterKey
  readonly waiting: Waiting[]
  /** Set while the first waiter is paused between two requests. */
  readonly alarm: Alarm
  asleep: boolean
  /** When the first waiter asks again, by `performance.now()`; valid while `asleep`. */
  asksAt: number
}

/**
 * Waiting lines in this process, for a store that keeps none: waiters for the same key queue up, first come, first served. Only the first
 * one asks the store, each time at the moment that the store has returned.
 */
export class AskAgainLines {
  readonly #lines = new Map<string, AskingLine>()

  constructor(
    readonly ask: (key: LimiterKey, cost: number) => Promise<Decision>,
    readonly giveBack: (decision: Decision) => Promise<void>,
  ) {}

  wait(key: LimiterKey, cost: number, patience: Patience): Promise<Decision> {
    const line = this.#lineOf(key)
    const leave = () => this.#leave(line, waiting)
    const wait = new Wait<Decision>(
      patienceOfAsking(patience),
      () => {
        queueMicrotask(leave)
        return tooLate(patience.timeoutMs)
      },
      () => queueMicrotask(leave),
    )
    const waiting: Waiting = { cost, patience, wait }
    line.waiting.push(waiting)
    if (line.waiting.length === 1) void this.#serve(line)
    else if (patience.timeoutMs === 0) {
      wait.reject(tooLate(patience.timeoutMs))
      leave()
    } else if (line.asleep) this.#refuseIfTooFar(line, waiting)
    return wait.promise
  }

  /** What the key may spend has changed: the first waiter asks at once. */
  wake(key: LimiterKey): void {
    if (this.#lines.size === 0) return
    const line = this.#lines.get(JSON.stringify(key))
    if (line?.asleep) void this.#serve(line)
  }

  #lineOf(key: LimiterKey): AskingLine {
    return getOrMake(this.#lines, JSON.stringify(key), () => {
      const alarm = new Alarm(() => void this.#serve(line))
      const line: AskingLine = { key, waiting: [], alarm, asleep: false, asksAt: 0 }
      return line
    })
  }

  /** Asks for the first waiter, which stays first until it is served, must wait, or has left. */
  async #serve(line: AskingLine): Promise<void> {
    line.asleep = false
    line.alarm.clear()
    const first = line.waiting[0]
    const { cost, patience, wait } = first
    try {
      const decision = await this.ask(line.key, cost)
      if (wait.ended) {
        if (decision.allowed) this.giveBack(decision).catch(() => {})
      } else if (decision.allowed) wait.resolve(decision)
      else if (decision.source === 'closed')
        wait.reject(new StoreError('the store failed, and the failure policy gives no decision'))
      else if (decision.retryAfterMs === Number.POSITIVE_INFINITY) wait.reject(neverFits(cost, decision.limit))
      else if (decision.retryAfterMs > (patience.timeoutMs === 0 ? 0 : wait.leftMs)) {
        wait.reject(tooFar(decision.retryAfterMs))
      } else {
        this.#sleep(line, decision.retryAfterMs)
        return
      }
    } catch (error) {
      wait.reject(error)
    }
    this.#leave(line, first)
  }

  /** Pauses until the first may ask again. Waiters that cannot wait so long leave, because those before them cannot be faster. */
  #sleep(line: AskingLine, ms: number): void {
    line.asleep = true
    line.asksAt = performance.now() + ms
    line.alarm.set(line.asksAt)
    for (const waiting of line.waiting.slice(1)) this.#refuseIfTooFar(line, waiting)
  }

  #refuseIfTooFar(line: AskingLine, waiting: Waiting): void {
    const waitMs = Math.ceil(line.asksAt - performance.now())
    if (waitMs <= waiting.wait.leftMs) return
    waiting.wait.reject(tooFar(waitMs))
    this.#leave(line, waiting)
  }

  #leave(line: AskingLine, waiting: Waiting): void {
    const place = line.waiting.indexOf(waiting)
    if (place < 0) return
    line.waiting.splice(place, 1)
    if (line.waiting.length === 0) {
      line.alarm.clear()
      this.#lines.delete(JSON.stringify(line.key))
    } else if (place === 0) void this.#serve(line)
  }
}

/** A request that does not wait for units still waits for the store's answer, up to the deadline. */
function patienceOfAsking(patience: Patience): Patience {
  return patience.timeoutMs === 0 ? { ...patience, timeoutMs: Number.POSITIVE_INFINITY } : patience
}

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

const LINES = new WeakMap<MemoryStore, MemoryLines>()

/** Waiting lines over a memory store, by the same rules as those in Redis, but without messages, because all waiters are in this process. */
export class MemoryLines implements StoreLines {
  readonly #lines = new Map<string, MemoryLine>()

  private constructor(readonly store: MemoryStore) {}

  /** The lines of a store, shared by all its limiters. */
  static of(store: MemoryStore): MemoryLines {
    return getOrMake(LINES, store, () => new MemoryLines(store))
  }

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
