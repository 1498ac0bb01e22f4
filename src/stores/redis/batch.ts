import { algorithmOf } from '../../algorithms/registry.js'
import type { Limit } from '../../core/limit.js'
import type { Script } from '../../redis/script.js'
import { consume, consumeOne } from '../../redis/scripts.js'
import type { Asker, Charge } from '../store.js'
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

/** A cache of batch kinds: creating one takes longer than a decision. */
export class BatchKinds {
  readonly #kinds = new WeakMap<Limit, Map<number, BatchKind[]>>()

  constructor(readonly keys: ChargeKeys) {}

  of(charges: readonly Charge[], tag: number): BatchKind {
    const { limit } = charges[0]
    let byTag = this.#kinds.get(limit)
    if (byTag === undefined) {
      byTag = new Map()
      this.#kinds.set(limit, byTag)
    }
    let kinds = byTag.get(tag)
    if (kinds === undefined) {
      kinds = []
      byTag.set(tag, kinds)
    }
    for (const kind of kinds) if (kind.suits(charges)) return kind
    const kind = new BatchKind(charges, tag, this.keys)
    kinds.push(kind)
    return kind
  }
}

/** A script can pass at most 8000 arguments to a command, and MSET takes two per key. */
const MOST_KEYS = 3500
/** The script refuses the whole batch 50 ms after its first deadline, so no deadline may be later than that. */
const LONGEST_SPREAD_MS = 50

/** Decisions that share a script call. */
export class Batch {
  readonly askers: Asker[] = []
  readonly keys: string[]
  /** The first and the last deadline of its decisions, by `performance.now()`. */
  firstEndsAt = Number.POSITIVE_INFINITY
  lastEndsAt = Number.NEGATIVE_INFINITY
  readonly #costs: number[] = []
  #closed = false

  /** It holds at most `most` decisions, and at most the work that the server does in 1 ms. */
  constructor(
    readonly kind: BatchKind,
    readonly most: number,
  ) {
    this.keys = [...kind.sharedKeys]
  }

  /** Whether one more decision with this deadline fits. */
  takesMore(endsAt: number): boolean {
    if (this.#closed || this.askers.length >= this.most || this.askers.length >= this.kind.most) return false
    if (this.keys.length + this.kind.limits.length > MOST_KEYS) return false
    if (endsAt - this.firstEndsAt > LONGEST_SPREAD_MS) return false
    return this.lastEndsAt - endsAt <= LONGEST_SPREAD_MS
  }

  add(charges: readonly Charge[], cost: number, endsAt: number, asker: Asker): void {
    const { toKeys } = this.kind
    for (let i = 0; i < charges.length; i++) this.keys.push(toKeys[i](charges[i].key))
    this.#costs.push(cost)
    this.askers.push(asker)
    if (endsAt < this.firstEndsAt) this.firstEndsAt = endsAt
    if (endsAt > this.lastEndsAt) this.lastEndsAt = endsAt
  }

  /** The script arguments, from the limits on. `nowMs`: the server's clock, as far as it is known. */
  arguments(nowMs: () => number): string[] {
    return this.kind.arguments(this.#costs, nowMs)
  }

  /** Closes the batch: it is sent now, or dropped. */
  close(): void {
    this.#closed = true
  }

  reject(error: unknown): void {
    for (const asker of this.askers) asker.reject(error)
  }
}
