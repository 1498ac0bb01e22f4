import { algorithmOf, type State } from '../../../src/algorithms/registry.js'
import type { Clock } from '../../../src/core/clock.js'
import { blockedVerdict, type Verdict } from '../../../src/core/decision.js'
import { countedSpan } from '../../../src/core/limit.js'
import type { Charge, Store } from '../../../src/stores/store.js'

/** The smallest store that passes the contract: the recipe for a store, carried out. It never removes keys by itself. */
export class MapStore implements Store {
  readonly #states = new Map<string, State>()
  readonly #blockedUntil = new Map<string, number>()

  constructor(readonly clock: Clock) {}

  consume(charges: readonly Charge[], cost: number): readonly Verdict[] {
    return this.#decide(charges, cost, true)
  }

  peek(charges: readonly Charge[], cost: number): readonly Verdict[] {
    return this.#decide(charges, cost, false)
  }

  refund(charges: readonly Charge[], cost: number): void {
    for (const charge of charges) {
      const { refund } = algorithmOf(charge.limit.algorithm)
      this.#write(charge, refund(charge.limit, this.#stateOf(charge), this.#now(), cost))
    }
  }

  reset(charges: readonly Charge[]): void {
    for (const charge of charges) this.#write(charge, undefined)
  }

  block(charges: readonly Charge[], forMs: number): void {
    for (const charge of charges) this.#blockedUntil.set(keyOf(charge), this.#now() + forMs)
  }

  #decide(charges: readonly Charge[], cost: number, spending: boolean): readonly Verdict[] {
    const nowMs = this.#now()
    const measure = (units: number) =>
      charges.map(charge => {
        const { verdict, next } = algorithmOf(charge.limit.algorithm).measure(
          charge.limit,
          this.#stateOf(charge),
          nowMs,
          units,
        )
        const blockedMs = (this.#blockedUntil.get(keyOf(charge)) ?? 0) - nowMs
        return { verdict: blockedMs > 0 ? blockedVerdict(verdict, blockedMs) : verdict, next }
      })
    const measured = measure(cost)
    if (measured.every(({ verdict }) => verdict.allowed)) {
      if (spending) measured.forEach(({ next }, i) => void this.#write(charges[i], next))
      return measured.map(({ verdict }) => verdict)
    }
    // Nothing is spent: the verdict of a limit that would have allowed the request shows its unchanged state.
    const standing = measure(0)
    if (spending) standing.forEach(({ next }, i) => void this.#write(charges[i], next))
    return measured.map(({ verdict }, i) => (verdict.allowed ? standing[i].verdict : verdict))
  }

  #now(): number {
    return Math.floor(this.clock.now())
  }

  #stateOf(charge: Charge): State | undefined {
    return this.#states.get(keyOf(charge))
  }

  #write(charge: Charge, state: State | undefined): void {
    if (state === undefined) this.#states.delete(keyOf(charge))
    else this.#states.set(keyOf(charge), state)
  }
}

function keyOf({ key, limit, limiter = 'default' }: Charge): string {
  return JSON.stringify([limiter, limit.name, limit.algorithm, countedSpan(limit), key])
}
