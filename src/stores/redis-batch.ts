import type { Verdict } from '../decision.js'
import type { Limit } from '../limit.js'
import type { Script } from '../redis/script.js'
import { consume, consumeRow, consumeRows } from '../redis/scripts.js'
import type { Charge } from '../store.js'
import type { ChargeKeys } from './redis-charge-keys.js'
import { limitArguments } from './redis-wire.js'

/** Who waits for the verdicts of one decision. */
export interface Asker {
  resolve(verdicts: readonly Verdict[]): void
  reject(error: unknown): void
}

/** A script can hand no more than 8000 arguments to a command, and MSET takes two for a key. */
const MOST_KEYS = 3500

/** Decisions that share a script call: the same limits of the same limiter, keys of one tag. */
export class Batch {
  readonly openedAt = performance.now()
  readonly #limiter: string | undefined
  #askers: Asker[] = []
  #keys: string[]
  #costs: number[] = []
  #oneCost = true

  private constructor(
    readonly limits: readonly Limit[],
    blockLists: readonly string[],
    readonly tag: number,
    limiter: string | undefined,
  ) {
    this.#keys = [...blockLists]
    this.#limiter = limiter
  }

  /** An empty one for decisions like this one. */
  static for(charges: readonly Charge[], tag: number, keys: ChargeKeys): Batch {
    const blockLists = charges.map(charge => keys.blockListOf(charge, tag))
    return new Batch(
      charges.map(charge => charge.limit),
      blockLists,
      tag,
      charges[0].limiter,
    )
  }

  takes(charges: readonly Charge[], tag: number): boolean {
    const { limits } = this
    if (this.#keys.length + charges.length > MOST_KEYS) return false
    if (tag !== this.tag || charges.length !== limits.length || charges[0].limiter !== this.#limiter) return false
    for (let i = 0; i < limits.length; i++) if (limits[i] !== charges[i].limit) return false
    return true
  }

  add(charges: readonly Charge[], cost: number, keys: ChargeKeys, asker: Asker): void {
    for (const charge of charges) this.#keys.push(keys.keyOf(charge, this.tag))
    if (cost !== (this.#costs[0] ?? cost)) this.#oneCost = false
    this.#costs.push(cost)
    this.#askers.push(asker)
  }

  get askers(): readonly Asker[] {
    return this.#askers
  }

  /** Itself, or as many of its kind as it takes for none to hold more than so many decisions. In their order. */
  parts(most: number): readonly Batch[] {
    if (this.#askers.length <= most) return [this]
    const width = this.limits.length
    const [lists, keys] = [this.#keys.slice(0, width), this.#keys.slice(width)]
    const parts: Batch[] = []
    for (let first = 0; first < this.#askers.length; first += most) {
      const part = new Batch(this.limits, lists, this.tag, this.#limiter)
      part.#askers = this.#askers.slice(first, first + most)
      part.#costs = this.#costs.slice(first, first + most)
      part.#keys = [...lists, ...keys.slice(first * width, (first + most) * width)]
      part.#oneCost = this.#oneCost
      parts.push(part)
    }
    return parts
  }

  get script(): Script {
    if (this.limits.some(({ algorithm }) => algorithm === 'sliding-window')) return consume
    return this.limits.length === 1 ? consumeRow : consumeRows
  }

  get keys(): readonly string[] {
    return this.#keys
  }

  /** As the script reads them, from the limits on. */
  get arguments(): string[] {
    const costs = this.#oneCost ? this.#costs.slice(0, 1) : this.#costs
    return [...limitArguments(this.limits), ...costs.map(String)]
  }

  reject(error: unknown): void {
    for (const asker of this.#askers) asker.reject(error)
  }
}
