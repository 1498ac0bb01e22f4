import type { Algorithm } from '../../algorithms/algorithm.js'
import { ceilDiv } from '../../algorithms/division.js'
import type { State } from '../../algorithms/registry.js'
import type { Verdict } from '../../core/decision.js'
import type { Limit } from '../../core/limit.js'

/** One who waits. */
export interface Waiter {
  readonly limit: Limit
  readonly cost: number
  turnAt: number
  /** Told when the turn comes at another time: in so many ms. */
  readonly moved: (waitMs: number) => void
}

/** How long one waits for its turn. What waits for a leaky bucket waits until it leaves it. */
export function turnAfterMs({ limit, allowed, retryAfterMs, delayMs }: Verdict, cost: number): number {
  if (allowed) return delayMs
  if (limit.algorithm !== 'leaky-bucket' || !Number.isFinite(retryAfterMs)) return retryAfterMs
  return retryAfterMs + ceilDiv((limit.burst - cost) * limit.windowMs, limit.quota)
}

/** Those who have booked a key and whose turn has not come, in their order. */
export class Line {
  #waiters: Waiter[] = []

  get isEmpty(): boolean {
    return this.#waiters.length === 0
  }

  add(waiter: Waiter): void {
    this.#waiters.push(waiter)
  }

  /** Lets those go whose turn has come. */
  prune(nowMs: number): void {
    if (this.#waiters.length > 0 && this.#waiters[0].turnAt <= nowMs) {
      this.#waiters = this.#waiters.filter(waiter => waiter.turnAt > nowMs)
    }
  }

  /** Where the waiter stands; -1 if its turn has come. */
  placeOf(waiter: Waiter): number {
    return this.#waiters.indexOf(waiter)
  }

  remove(place: number): void {
    this.#waiters.splice(place, 1)
  }

  /** Plans those from a place on anew: takes out what they have booked, changes the state, then books each again. */
  replan(
    algorithm: Algorithm<State>,
    limit: Limit,
    state: State | undefined,
    nowMs: number,
    from: number,
    change: (state: State | undefined) => State | undefined,
  ): State | undefined {
    const behind = this.#waiters.slice(from)
    const units = behind.reduce((sum, { cost }) => sum + cost, 0)
    let next = change(units === 0 ? state : algorithm.unbook!(limit, state, nowMs, units))
    for (const waiter of behind) {
      const plannedMs = turnAfterMs(algorithm.measure(waiter.limit, next, nowMs, waiter.cost).verdict, waiter.cost)
      // A limit that has since become too small for it: as it was.
      const waitMs = Number.isFinite(plannedMs) ? plannedMs : waiter.turnAt - nowMs
      next = algorithm.book!(waiter.limit, next, nowMs, waiter.cost, waitMs)
      waiter.turnAt = nowMs + waitMs
    }
    for (const waiter of behind) waiter.moved(waiter.turnAt - nowMs)
    this.prune(nowMs)
    return next
  }
}
