import type { Verdict } from '../../src/limiter/core/decision.js'
import type { Charge, Store } from '../../src/limiter/store.js'
import { freshVerdict } from './verdicts.js'

type Answer<T> = Promise<T> | T

/** A store that notes what it is asked and answers as it is told; unless told, it allows everything, later. */
export class StubStore implements Store {
  readonly calls: string[] = []
  answer: (charges: readonly Charge[], cost: number) => Answer<readonly Verdict[]> = async charges =>
    charges.map(({ limit }) => freshVerdict(limit))
  act: () => Answer<void> = async () => {}

  consume(charges: readonly Charge[], cost: number) {
    this.#note('consume', charges, cost)
    return this.answer(charges, cost)
  }

  peek(charges: readonly Charge[], cost: number) {
    this.#note('peek', charges, cost)
    return this.answer(charges, cost)
  }

  refund(charges: readonly Charge[], cost: number) {
    this.#note('refund', charges, cost)
    return this.act()
  }

  reset(charges: readonly Charge[]) {
    this.#note('reset', charges)
    return this.act()
  }

  charge(charges: readonly Charge[], cost: number) {
    this.#note('charge', charges, cost)
    return this.act()
  }

  block(charges: readonly Charge[], forMs: number) {
    this.#note('block', charges, forMs)
    return this.act()
  }

  /** Denies everything, with this wait. */
  deny(retryAfterMs: number): void {
    this.answer = async charges =>
      charges.map(({ limit }) => ({
        ...freshVerdict(limit),
        allowed: false,
        remaining: 0,
        retryAfterMs,
        resetAfterMs: retryAfterMs,
      }))
  }

  #note(verb: string, charges: readonly Charge[], number?: number): void {
    this.calls.push([verb, ...charges.map(({ key, limit }) => `${key}@${limit.name}`), number ?? ''].join(' ').trim())
  }
}
