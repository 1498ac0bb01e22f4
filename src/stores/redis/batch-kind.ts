import { algorithmOf } from '../../algorithms/registry.js'
import type { Limit } from '../../core/limit.js'
import type { Script } from '../../redis/script.js'
import { consume, consumeOne } from '../../redis/scripts.js'
import type { Charge } from '../store.js'
import type { ChargeKeys } from './charge-keys.js'
import { limitArguments, loneLimitNumbers, scriptAlgorithmOf } from './wire-format.js'

/** Work that the server does in about 1 ms on an old core, in units of about 4 µs. */
const BATCH_WORK = 256
/** Above this the script writes numbers out in digits, without a fast path: see large_numbers_as_text in lua/lib/decision.lua. */
const LARGEST_PLAIN = Number.MAX_SAFE_INTEGER - 63
/** The common part of decisions that may share a script call: the limits, the limiter, and the hash tag of their keys. */
export class BatchKind {
  readonly limits: readonly Limit[]
  readonly script: Script
  /** Most decisions in one call, so that the call blocks the server for at most about 1 ms. */
  readonly most: number
  /** The keys that all decisions share: the block lists, and the marks of waiting lines. */
  readonly sharedKeys: readonly string[]
  /** Makes the key of each limit from a client's key. */
  readonly toKeys: readonly ((client: string) => string)[]
  /** The server that decides now: see `ClientPort.serverOf`. */
  readonly server: () => string
  readonly #limiter: string | undefined
  /** The limits as script arguments; undefined if they change with the time. */
  readonly #limitArguments: readonly string[] | undefined
  readonly #isLone: boolean
  readonly #changes: boolean
  /** Whether a cost of 1 is sent explicitly. */
  readonly #namesCost: boolean

  constructor(
    charges: readonly Charge[],
    readonly tag: number,
    keys: ChargeKeys,
  ) {
    this.limits = charges.map(({ limit }) => limit)
    this.#isLone = this.limits.length === 1
    this.script = this.#isLone ? consumeOne[scriptAlgorithmOf(this.limits[0])] : consume
    const work = this.limits.reduce((sum, { algorithm }) => sum + algorithmOf(algorithm).inPlace.redisWork, 0)
    this.most = Math.max(1, Math.floor(BATCH_WORK / work))
    this.#limiter = charges[0].limiter
    this.server = () => keys.serverOf(tag)
    const blockLists = charges.map(charge => keys.blockListOf(charge, tag))
    this.sharedKeys = [...blockLists, keys.marksOf(charges, tag)]
    this.toKeys = charges.map(charge => keys.toKey(charge, tag))
    this.#changes = this.limits.some(({ calendar }) => calendar !== undefined)
    this.#limitArguments = this.#changes ? undefined : this.#limitsAt(() => 0)
    this.#namesCost = !this.#isLone || Math.max(this.limits[0].quota, this.limits[0].windowMs) > LARGEST_PLAIN
  }

  suits(charges: readonly Charge[]): boolean {
    const { limits } = this
    if (charges.length !== limits.length || charges[0].limiter !== this.#limiter) return false
    for (let i = 0; i < limits.length; i++) if (limits[i] !== charges[i].limit) return false
    return true
  }

  /** The script arguments, from the limits on. `nowMs`: the server's clock, as far as it is known. */
  arguments(costs: readonly number[], nowMs: () => number): string[] {
    const args = [...(this.#limitArguments ?? this.#limitsAt(nowMs))]
    const [first] = costs
    if (!costs.every(cost => cost === first)) for (const cost of costs) args.push(String(cost))
    else if (first !== 1 || this.#namesCost) args.push(String(first))
    return args
  }

  #limitsAt(nowMs: () => number): string[] {
    return this.#isLone ? loneLimitNumbers(this.limits[0], nowMs).map(String) : limitArguments(this.limits, nowMs)
  }
}
