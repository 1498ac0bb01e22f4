import type { AlgorithmName, Limit } from '../../limiter/core/limit.js'
import { getOrMake } from '../../limiter/core/maps.js'
import { type CountedLimit, type Keys, keyAt, type Reply } from '../../limiter/port.js'
import type { Charge } from '../../limiter/store.js'
import type { Script } from '../script.js'
import { consume, consumeLog, consumeRow } from '../scripts.js'
import type { ChargeKeys } from './charge-keys.js'
import type { Outgoing } from './outbox.js'
import { limitArguments, limitNumbers, scriptAlgorithmOf } from './wire-format.js'

/** Work that the server does in about 1 ms on an old core, in units of about 4 µs. */
const BATCH_WORK = 256
/** A decision under a limit, in the same units. */
const WORK: Readonly<Record<AlgorithmName, number>> = {
  'fixed-window': 1,
  'sliding-window': 2,
  'sliding-counter': 1,
  'token-bucket': 1,
  'leaky-bucket': 1,
}

/**
 * The common part of decisions that may share a script call: the limits, the limiter, and the hash tag of their keys.
 */
export class BatchKind {
  readonly limits: readonly Limit[]
  readonly script: Script
  /** Most decisions in one call, so that the call blocks the server for at most about 1 ms. */
  readonly most: number
  /** The keys that all decisions share: the block lists, and the units that wait in lines. */
  readonly sharedKeys: readonly string[]
  /** Makes the key of each limit from a client's key. */
  readonly toKeys: readonly ((client: string) => string)[]
  /** The limits as script arguments; undefined if they change with the time. */
  readonly #limitArguments: readonly string[] | undefined
  readonly #isLone: boolean
  readonly #changes: boolean

  constructor(
    charged: readonly CountedLimit[],
    readonly tag: number,
    keys: ChargeKeys,
  ) {
    const charges = charged.map(({ limit, limiter }): Charge => ({ key: '', limit, limiter }))
    this.limits = charges.map(({ limit }) => limit)
    this.#isLone = this.limits.length === 1
    this.script = this.#isLone ? scriptOf(this.limits[0]) : consume
    const work = this.limits.reduce((sum, { algorithm }) => sum + WORK[algorithm], 0)
    this.most = Math.max(1, Math.floor(BATCH_WORK / work))
    const blockLists = charges.map(charge => keys.blockListOf(charge, tag))
    this.sharedKeys = [...blockLists, keys.waitingUnitsOf(charges, tag)]
    this.toKeys = charges.map(charge => keys.toKey(charge, tag))
    this.#changes = this.limits.some(({ calendar }) => calendar !== undefined)
    this.#limitArguments = this.#changes ? undefined : this.#limitsAt(() => 0)
  }

  /** The script arguments, from the limits on. `nowMs`: the server's clock, as far as it is known. */
  arguments(costs: readonly number[], areEqual: boolean, nowMs: () => number): string[] {
    const args = [...(this.#limitArguments ?? this.#limitsAt(nowMs))]
    if (!areEqual) for (const cost of costs) args.push(String(cost))
    else if (costs[0] !== 1 || !this.#isLone) args.push(String(costs[0]))
    return args
  }

  /** The key of each limit, of a client's keys. */
  keysOf(clients: Keys): string[] {
    return this.toKeys.map((toKey, i) => toKey(keyAt(clients, i)))
  }

  #limitsAt(nowMs: () => number): string[] {
    return this.#isLone ? limitNumbers(this.limits[0], nowMs) : limitArguments(this.limits, nowMs)
  }
}

/** The script that decides under one limit. */
function scriptOf(limit: Limit): Script {
  const algorithm = scriptAlgorithmOf(limit)
  return algorithm === 'sliding_window' ? consumeLog : consumeRow[algorithm as keyof typeof consumeRow]
}

/** The kinds of batches under one policy of one limiter, by hash tag. */
export class PolicyKinds {
  readonly #byTag: BatchKind[] = []

  constructor(
    readonly charged: readonly CountedLimit[],
    readonly keys: ChargeKeys,
  ) {}

  at(tag: number): BatchKind {
    this.#byTag[tag] ??= new BatchKind(this.charged, tag, this.keys)
    return this.#byTag[tag]
  }

  suits(charged: readonly CountedLimit[]): boolean {
    if (charged.length !== this.charged.length) return false
    return this.charged.every(({ limit, limiter }, i) => limit === charged[i].limit && limiter === charged[i].limiter)
  }
}

/** All kinds of a store: creating one takes longer than a decision. */
export class BatchKinds {
  readonly #known = new WeakMap<Limit, PolicyKinds[]>()

  constructor(readonly keys: ChargeKeys) {}

  of(charged: readonly CountedLimit[]): PolicyKinds {
    const known = getOrMake(this.#known, charged[0].limit, () => [])
    for (const kinds of known) if (kinds.suits(charged)) return kinds
    const kinds = new PolicyKinds(
      charged.map(({ limit, limiter }) => ({ limit, limiter })),
      this.keys,
    )
    known.push(kinds)
    return kinds
  }
}

/** A script can pass at most 8000 arguments to a command, and MSET takes two per key. */
const MOST_KEYS = 3500
/** The script refuses the whole batch 50 ms after its first deadline, so no deadline may be later than that. */
const LONGEST_SPREAD_MS = 50

/** Decisions that share a script call. */
export class Batch implements Outgoing {
  readonly replies: Reply[] = []
  readonly keys: string[]
  /** The first and the last deadline of its decisions, by `performance.now()`. */
  firstEndsAt = Number.POSITIVE_INFINITY
  lastEndsAt = Number.NEGATIVE_INFINITY
  readonly #costs: number[] = []
  #areEqual = true
  /** True when it is sent or dropped: it takes no more. */
  isClosed = false
  /** The keys of its decisions, as far as `holds` has looked at them. */
  #held: Set<string> | undefined
  #looked: number

  /**
   * It holds at most `most` decisions, and at most the work that the server does in 1 ms. `part`: of the outbox.
   */
  constructor(
    readonly kind: BatchKind,
    readonly most: number,
    readonly part: number,
    readonly sends: (batch: Batch) => void,
  ) {
    this.keys = [...kind.sharedKeys]
    this.#looked = this.keys.length
  }

  get size(): number {
    return this.replies.length
  }

  /** Whether one more decision with this deadline fits. */
  takesMore(endsAt: number): boolean {
    if (this.isClosed || this.replies.length >= this.most || this.replies.length >= this.kind.most) return false
    if (this.keys.length + this.kind.limits.length > MOST_KEYS) return false
    if (endsAt - this.firstEndsAt > LONGEST_SPREAD_MS) return false
    return this.lastEndsAt - endsAt <= LONGEST_SPREAD_MS
  }

  add(clients: Keys, cost: number, endsAt: number, reply: Reply): void {
    const { toKeys } = this.kind
    for (let i = 0; i < toKeys.length; i++) this.keys.push(toKeys[i](keyAt(clients, i)))
    if (this.#costs.push(cost) > 1 && cost !== this.#costs[0]) this.#areEqual = false
    this.replies.push(reply)
    if (endsAt < this.firstEndsAt) this.firstEndsAt = endsAt
    if (endsAt > this.lastEndsAt) this.lastEndsAt = endsAt
  }

  /** The script arguments, from the limits on. `nowMs`: the server's clock, as far as it is known. */
  arguments(nowMs: () => number): string[] {
    return this.kind.arguments(this.#costs, this.#areEqual, nowMs)
  }

  /** Whether one of its decisions is about one of these keys. */
  holds(keys: readonly string[]): boolean {
    this.#held ??= new Set()
    for (; this.#looked < this.keys.length; this.#looked++) this.#held.add(this.keys[this.#looked])
    for (const key of keys) if (this.#held.has(key)) return true
    return false
  }

  send(): void {
    this.isClosed = true
    this.sends(this)
  }

  reject(error: unknown): void {
    this.isClosed = true
    for (const reply of this.replies) reply.reject(error)
  }
}
