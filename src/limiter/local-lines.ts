import type { Decision } from '../core/decision.js'
import { CostError, StoreError, TimeoutError } from '../core/errors.js'
import type { Limit } from '../core/limit.js'
import { Alarm } from '../waiting/alarm.js'
import { type Patience, Wait } from '../waiting/wait.js'
import type { LimiterKey } from './key.js'

interface Waiting {
  readonly cost: number
  readonly patience: Patience
  readonly wait: Wait<Decision>
}

/** The waiters for one key. Only the first asks the store. */
interface Line {
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
export class LocalLines {
  readonly #lines = new Map<string, Line>()

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
        return tooLate(patience)
      },
      () => queueMicrotask(leave),
    )
    const waiting: Waiting = { cost, patience, wait }
    line.waiting.push(waiting)
    if (line.waiting.length === 1) void this.#serve(line)
    else if (patience.timeoutMs === 0) {
      wait.reject(tooLate(patience))
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

  #lineOf(key: LimiterKey): Line {
    const name = JSON.stringify(key)
    let line = this.#lines.get(name)
    if (line === undefined) {
      const alarm = new Alarm(() => void this.#serve(opened))
      const opened: Line = { key, waiting: [], alarm, asleep: false, asksAt: 0 }
      line = opened
      this.#lines.set(name, line)
    }
    return line
  }

  /** Asks for the first waiter, which stays first until it is served, must wait, or has left. */
  async #serve(line: Line): Promise<void> {
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
  #sleep(line: Line, ms: number): void {
    line.asleep = true
    line.asksAt = performance.now() + ms
    line.alarm.set(line.asksAt)
    for (const waiting of line.waiting.slice(1)) this.#refuseIfTooFar(line, waiting)
  }

  #refuseIfTooFar(line: Line, waiting: Waiting): void {
    const waitMs = Math.ceil(line.asksAt - performance.now())
    if (waitMs <= waiting.wait.leftMs) return
    waiting.wait.reject(tooFar(waitMs))
    this.#leave(line, waiting)
  }

  #leave(line: Line, waiting: Waiting): void {
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

export function tooLate({ timeoutMs }: Patience): TimeoutError {
  return new TimeoutError(`the turn did not come within ${timeoutMs} ms`)
}

export function tooFar(waitMs: number): TimeoutError {
  return new TimeoutError(`the turn would come in ${waitMs} ms, which is after the timeout`, { retryAfterMs: waitMs })
}

export function neverFits(cost: number, limit: Limit): CostError {
  return new CostError(`cost ${cost}: limit "${limit.name}" never allows so much at once, waiting would not help`)
}
