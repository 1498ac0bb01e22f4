import { Alarm } from './core/alarms.js'
import { timersLast } from './core/clock.js'
import type { Decision } from './core/decision.js'
import { StoreError } from './core/errors.js'
import { getOrMake } from './core/maps.js'
import { type Patience, Wait } from './core/wait.js'
import { countName } from './count-name.js'
import type { LimiterKey } from './key.js'
import { waitedOut } from './settlement.js'
import type { Charge } from './store.js'
import { neverFits, tooFar, tooLate } from './store-lines.js'

interface Waiting {
  readonly cost: number
  readonly patience: Patience
  readonly wait: Wait<Decision>
}

/** The waiters for one key. Only the first asks the store. */
interface AskingLine {
  readonly name: string
  readonly key: LimiterKey
  readonly waiting: Waiting[]
  /** Set while the first waiter is paused between two requests. */
  readonly alarm: Alarm
  asleep: boolean
  /** When the first waiter asks again, by `performance.now()`; valid while `asleep`. */
  asksAt: number
}

/**
 * Waiting lines in this process, for a store that keeps none: waiters for the same key queue up, first come, first
 * served. Only the first one asks the store, each time at the moment that the store has returned.
 */
export class AskAgainLines {
  readonly #lines = new Map<string, AskingLine>()
  /** Those that have their units, and wait out the delay of a leaky bucket. */
  readonly #delayed = new Set<Wait<Decision>>()
  #alone = 0

  constructor(
    readonly ask: (key: LimiterKey, cost: number) => Promise<Decision>,
    readonly giveBack: (decision: Decision) => Promise<void>,
  ) {}

  /** `charges`: those of the key. */
  wait(charges: readonly Charge[], key: LimiterKey, cost: number, patience: Patience): Promise<Decision> {
    // Where timers belong to requests, each waits by a timer of its own, and not in a line.
    const line = this.#lineOf(timersLast ? nameOf(charges) : `alone ${this.#alone++}`, key)
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

  /** What these charges may spend has changed: the first waiter asks at once. */
  wake(charges: readonly Charge[]): void {
    if (this.#lines.size === 0) return
    const line = this.#lines.get(nameOf(charges))
    if (line?.asleep) void this.#serve(line)
  }

  /** Rejects all waiters. */
  close(error: Error): void {
    for (const line of this.#lines.values()) {
      line.alarm.clear()
      for (const { wait } of line.waiting.splice(0)) wait.reject(error)
    }
    this.#lines.clear()
    for (const wait of this.#delayed) wait.reject(error)
  }

  #lineOf(name: string, key: LimiterKey): AskingLine {
    return getOrMake(this.#lines, name, () => {
      const alarm = new Alarm(() => void this.#serve(line))
      const line: AskingLine = { name, key, waiting: [], alarm, asleep: false, asksAt: 0 }
      return line
    })
  }

  /** Asks for the first waiter, which stays first until it is served, must wait, or has left. */
  async #serve(line: AskingLine): Promise<void> {
    line.asleep = false
    line.alarm.clear()
    const first = this.#firstOf(line)
    if (first === undefined) return
    const { cost, patience, wait } = first
    /** 0 for one that waits for nothing but the answer. */
    const leftMs = () => (patience.timeoutMs === 0 ? 0 : wait.leftMs)
    try {
      const decision = await this.ask(line.key, cost)
      if (wait.ended) {
        if (decision.allowed) this.#giveBack(decision)
      } else if (decision.allowed) {
        if (decision.delayMs > leftMs()) {
          wait.reject(tooFar(decision.delayMs))
          this.#giveBack(decision)
        } else this.#delay(decision, wait)
      } else if (decision.source === 'closed')
        wait.reject(new StoreError('the store failed, and the failure policy gives no decision'))
      else if (decision.retryAfterMs === Number.POSITIVE_INFINITY) wait.reject(neverFits(cost, decision.limit))
      else if (decision.retryAfterMs > leftMs()) {
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

  /** The first that still waits: of many that one signal ends, none asks on its way out. Without any, the line ends. */
  #firstOf(line: AskingLine): Waiting | undefined {
    const { waiting } = line
    while (waiting.length > 0 && (waiting[0].wait.ended || waiting[0].wait.leftMs === 0)) waiting.shift()
    if (waiting.length === 0) this.#lines.delete(line.name)
    return waiting[0]
  }

  /** Resolves when the decision's delay is over. */
  #delay(decision: Decision, wait: Wait<Decision>): void {
    if (decision.delayMs === 0) {
      wait.resolve(decision)
      return
    }
    const alarm = new Alarm(() => wait.resolve(waitedOut(decision)))
    alarm.set(performance.now() + decision.delayMs)
    this.#delayed.add(wait)
    const ended = () => {
      alarm.clear()
      this.#delayed.delete(wait)
    }
    wait.promise.then(ended, () => {
      ended()
      this.#giveBack(decision)
    })
  }

  #giveBack(decision: Decision): void {
    this.giveBack(decision).catch(() => {})
  }

  /**
   * Pauses until the first may ask again. Waiters that cannot wait so long leave, because those before them cannot be
   * faster.
   */
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
    if (place === 0) void this.#serve(line)
  }
}

/** The limits and the key under each. */
function nameOf(charges: readonly Charge[]): string {
  return JSON.stringify(charges.map(charge => [countName(charge), charge.key]))
}

/** A request that does not wait for units still waits for the store's answer, up to the deadline. */
function patienceOfAsking(patience: Patience): Patience {
  return patience.timeoutMs === 0 ? { ...patience, timeoutMs: Number.POSITIVE_INFINITY } : patience
}
