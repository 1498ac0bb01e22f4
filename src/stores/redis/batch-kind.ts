import type { AlgorithmName, Limit } from '../../core/limit.js'
import type { Script } from '../../redis/script.js'
import {
  consume,
  consumeFixedWindow,
  consumeLeakyBucket,
  consumeSlidingCounter,
  consumeSlidingWindow,
  consumeTokenBucket,
} from '../../redis/scripts.js'
import type { Charge } from '../store.js'
import type { ChargeKeys } from './charge-keys.js'
import { limitArguments } from './wire.js'

/** Scripts for one limit alone. */
const LONE: Record<AlgorithmName, Script> = {
  'fixed-window': consumeFixedWindow,
  'sliding-counter': consumeSlidingCounter,
  'token-bucket': consumeTokenBucket,
  'leaky-bucket': consumeLeakyBucket,
  'sliding-window': consumeSlidingWindow,
}

/** What decisions have in common that may share a script call: the limits, the limiter, and the tag of their keys. */
export class BatchKind {
  readonly limits: readonly Limit[]
  readonly script: Script
  readonly blockLists: readonly string[]
  /** Makes the key of a limit out of a client's. */
  readonly toKeys: readonly ((client: string) => string)[]
  readonly #limiter: string | undefined
  readonly #limitArguments: readonly string[]
  readonly #isLone: boolean

  constructor(charges: readonly Charge[], tag: number, keys: ChargeKeys) {
    this.limits = charges.map(({ limit }) => limit)
    this.#isLone = this.limits.length === 1
    this.script = this.#isLone ? LONE[this.limits[0].algorithm] : consume
    this.#limiter = charges[0].limiter
    this.blockLists = charges.map(charge => keys.blockListOf(charge, tag))
    this.toKeys = charges.map(charge => keys.toKey(charge, tag))
    const [count, ...each] = limitArguments(this.limits)
    // A script for one limit knows how many there are, and the algorithm.
    this.#limitArguments = this.#isLone ? each.slice(1) : [count, ...each]
  }

  suits(charges: readonly Charge[]): boolean {
    const { limits } = this
    if (charges.length !== limits.length || charges[0].limiter !== this.#limiter) return false
    for (let i = 0; i < limits.length; i++) if (limits[i] !== charges[i].limit) return false
    return true
  }

  /** As the script reads them, from the limits on. */
  arguments(costs: readonly number[]): string[] {
    const args = [...this.#limitArguments]
    const [first] = costs
    if (!costs.every(cost => cost === first)) for (const cost of costs) args.push(String(cost))
    else if (first !== 1 || !this.#isLone) args.push(String(first))
    return args
  }
}
