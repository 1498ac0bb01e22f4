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

/** Those who want one key, the first of whom asks. */
interface Line {
  readonly key: LimiterKey
  readonly waiting: Waiting[]
  /** Set while the first waits to ask again. */
  readonly alarm: Alarm
  asleep: boolean
  /** When the first asks again, by `performance.now()`; while `asleep`. */
  asksAt: number
}

/**
 * Waiting where the store keeps no line: those who want the same key stand in line, first come, first served in this process, and
 * only the first one asks, each time the store has said when to come back.
 */
export class Turns {
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

  /** What the key may do has changed: the first of its line asks at once. */
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

  /** Asks for the first in line, who stays first until it is served, must come back, or has gone. */
  async #serve(line: Line): Promise<void> {
    line.asleep = false
    line.alarm.clear()
    const first = line.waiting[0]
    const { cost, patience, wait } = first
    try {
      const decision = await this.ask(line.key, cost)
      if (wait.over) {
        if (decision.allowed) this.giveBack(decision).catch(() => {})
      } else if (decision.allowed) wait.resolve(decision)
      else if (decision.source === 'closed')
        wait.reject(new StoreError('the store failed, and nobody decides in its place'))
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

  /** Until the first may ask again. Who cannot wait so long cannot wait for those before him, either. */
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

/** Whoever is not ready to wait still waits for the answer, which the deadline bounds. */
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
