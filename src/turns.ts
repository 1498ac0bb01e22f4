import type { Decision } from './decision.js'
import { CostError, TimeoutError } from './errors.js'
import type { Limit } from './limit.js'
import type { LimiterKey } from './limiter-key.js'
import { type Patience, Wait } from './shared/wait.js'

interface Waiting {
  readonly cost: number
  readonly wait: Wait<Decision>
}

/**
 * Waiting where nothing can be booked: those who want the same key stand in line, first come, first served in this process, and
 * only the first one asks, each time the store has said when to come back.
 */
export class Turns {
  readonly #lines = new Map<string, Waiting[]>()

  constructor(
    readonly ask: (key: LimiterKey, cost: number) => Promise<Decision>,
    readonly giveBack: (decision: Decision) => Promise<void>,
  ) {}

  wait(key: LimiterKey, cost: number, patience: Patience): Promise<Decision> {
    const name = JSON.stringify(key)
    const line = this.#lines.get(name) ?? []
    this.#lines.set(name, line)
    const leave = () => this.#leave(name, key, line, waiting)
    const wait = new Wait<Decision>(
      patience,
      () => {
        queueMicrotask(leave)
        return tooLate(patience)
      },
      () => queueMicrotask(leave),
    )
    const waiting: Waiting = { cost, wait }
    line.push(waiting)
    if (line.length === 1) void this.#serve(name, key, line)
    return wait.promise
  }

  /** Asks for the first in line, who stays first until it is served, must come back, or has gone. */
  async #serve(name: string, key: LimiterKey, line: Waiting[]): Promise<void> {
    const first = line[0]
    const { cost, wait } = first
    try {
      const decision = await this.ask(key, cost)
      if (wait.over) {
        if (decision.allowed) this.giveBack(decision).catch(() => {})
      } else if (decision.allowed) wait.resolve(decision)
      else if (decision.retryAfterMs === Number.POSITIVE_INFINITY) wait.reject(neverFits(cost, decision.limit))
      else if (decision.retryAfterMs > wait.leftMs) wait.reject(tooFar(decision.retryAfterMs))
      else {
        setTimeout(() => {
          if (line[0] === first) void this.#serve(name, key, line)
        }, decision.retryAfterMs)
        return
      }
    } catch (error) {
      wait.reject(error)
    }
    this.#leave(name, key, line, first)
  }

  #leave(name: string, key: LimiterKey, line: Waiting[], waiting: Waiting): void {
    const place = line.indexOf(waiting)
    if (place < 0) return
    line.splice(place, 1)
    if (line.length === 0) this.#lines.delete(name)
    else if (place === 0) void this.#serve(name, key, line)
  }
}

export function tooLate({ timeoutMs }: Patience): TimeoutError {
  return new TimeoutError(`the turn did not come within ${timeoutMs} ms`)
}

export function tooFar(waitMs: number): TimeoutError {
  return new TimeoutError(`the turn would come in ${waitMs} ms, which is after the timeout`)
}

export function neverFits(cost: number, limit: Limit): CostError {
  return new CostError(`cost ${cost}: limit "${limit.name}" never allows so much at once, waiting would not help`)
}
