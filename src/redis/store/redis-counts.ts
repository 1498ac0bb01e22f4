import type { BlockRule, Denials, Strikes } from '../../limiter/block-rule.js'
import type { Clock } from '../../limiter/core/clock.js'
import { keySegment } from '../../limiter/core/key-segment.js'
import type { Limit } from '../../limiter/core/limit.js'
import { OutageWarnings } from '../../limiter/core/warnings.js'
import {
  type BoundPolicy,
  type Change,
  type Connecting,
  type CountedLimit,
  type Counts,
  chargesFor,
  type Keys,
  keyAt,
  type Reply,
  type Verb,
} from '../../limiter/port.js'
import { type Charge, type ChargeReceipt, ClockSteps } from '../../limiter/store.js'
import type { RedisConnection } from '../client.js'
import { type BatchKind, BatchKinds, type PolicyKinds } from './batch.js'
import { Batcher } from './batcher.js'
import { Changes } from './changes.js'
import { ChargeKeys } from './charge-keys.js'
import { consumeApart, groupByTag } from './slots.js'
import { StoreScripts } from './store-scripts.js'

/** The prefix of the store that has met a limit. */
const MET = new WeakMap<Limit, string>()

/**
 * The prefix under which a limit is counted in Redis; undefined if it is not. Each limiter has limits of its own, also
 * if their policies are equal.
 */
export function prefixInRedis(limit: Limit): string | undefined {
  return MET.get(limit)
}

/** A limit that a store meets for the first time. */
export interface NewLimit {
  readonly limiter: string
  readonly limit: Limit
  /** The number of hash tags over which its keys are spread; undefined if all keys are on one server. */
  readonly tags: number | undefined
}

/** What the counts in Redis are made of. */
export interface RedisParts {
  readonly connection: RedisConnection
  readonly prefix: string
  /** Undefined: the server's clock. */
  readonly clock: Clock | undefined
  readonly maxBatch: number
  readonly tags: number
  readonly connectDeadlineMs: number
}

/** The counts of a `RedisStore`. */
export class RedisCounts implements Counts {
  readonly source = 'redis'
  readonly countsCalendars = true
  readonly clock: Clock | undefined
  readonly connecting: Connecting
  readonly place: readonly unknown[]
  readonly serverOf?: (counted: CountedLimit, key: string) => string
  /** Set by who puts a store together. */
  lines?: Counts['lines']
  /** Called when this store meets a limit under the name of a limiter for the first time. */
  onNewLimit?: (event: NewLimit) => void
  readonly keys: ChargeKeys
  readonly scripts: StoreScripts
  readonly changes: Changes
  readonly consumes: Batcher
  readonly peeks: Batcher
  /** By tag: in a cluster each tag may be on another server. */
  readonly #steps: ClockSteps[] = []
  readonly #kinds: BatchKinds

  constructor(readonly parts: RedisParts) {
    const { connection, prefix, clock, maxBatch, tags, connectDeadlineMs } = parts
    const { client, port } = connection
    this.clock = clock
    this.place = [client, prefix]
    this.keys = new ChargeKeys(keySegment(prefix), port, tags, (limiter, limit) => {
      MET.set(limit, prefix)
      this.onNewLimit?.({ limiter, limit, tags: port.cluster ? tags : undefined })
    })
    if (port.cluster) this.serverOf = (_, key) => this.keys.serverOf(this.keys.tagOf(key))
    // Looked up once, because the global is a getter.
    const { performance: processTime } = globalThis
    // A given clock is checked for steps where it is read.
    const decided = (tag: number, nowMs: number, askedAt: number) => {
      if (clock === undefined) this.#stepsOf(tag).note(nowMs, askedAt, processTime.now())
    }
    this.scripts = new StoreScripts(port, this.keys, clock && (() => this.#nowOf(clock)))
    const { timely } = this.scripts
    this.connecting = {
      connectsUntil() {
        const since = timely.connectsSince()
        return since === undefined ? 0 : since + connectDeadlineMs
      },
    }
    this.#kinds = new BatchKinds(this.keys)
    this.consumes = new Batcher(this.scripts, this.#kinds, maxBatch, true, decided)
    this.peeks = new Batcher(this.scripts, this.#kinds, maxBatch, false, decided)
    this.changes = new Changes(this.scripts)
  }

  bind(counted: readonly CountedLimit[]): BoundPolicy {
    for (const limit of counted) this.keys.meet(limit)
    return new RedisPolicy(this, counted, this.#kinds.of(counted))
  }

  async change({ verb, units, lastsMs, receipts = [], answered }: Change, charges: readonly Charge[], endsAt?: number) {
    if (verb === 'giveBack') {
      await this.giveBack(
        charges.map((charge, i) => ({ ...charge, ...receipts[i] })),
        units,
        endsAt,
      )
    } else if (units > 0 || verb === 'reset' || verb === 'block') {
      const words = lastsMs === undefined ? undefined : (): [string, string] => [String(lastsMs), '']
      await this.changes.run(verb, charges, { units, words, endsAt, answered })
    }
  }

  /** Gives back what decisions spent, but not of moments that the server's clock has shown twice. */
  async giveBack(receipts: readonly ChargeReceipt[], units: number, endsAt?: number): Promise<void> {
    if (units === 0) return
    const words = (tag: number): [string, string] => {
      const { from, until } = this.#stepsOf(tag)
      return from <= until ? [String(from), String(until)] : ['', '']
    }
    await this.changes.run('settle', receipts, { units, words, endsAt })
  }

  strike(charge: Charge, denials: Denials, rule: BlockRule, endsAt?: number): Promise<Strikes> {
    return this.changes.strike(charge, denials, rule, endsAt)
  }

  warnings(meanwhile: string): OutageWarnings {
    const { connection } = this.parts
    return new OutageWarnings(connection.client, () => `Redis at ${connection.address}`, meanwhile)
  }

  #stepsOf(tag: number): ClockSteps {
    const server = this.clock === undefined ? tag : 0
    this.#steps[server] ??= new ClockSteps()
    return this.#steps[server]
  }

  #nowOf(clock: Clock): string {
    const nowMs = Math.floor(clock.now())
    this.#stepsOf(0).note(nowMs)
    return String(nowMs)
  }
}

/** A policy in Redis: which batches its decisions are in. */
class RedisPolicy implements BoundPolicy {
  readonly limits: readonly Limit[]
  /** Undefined on a cluster: the key says which. */
  readonly #only: BatchKind | undefined

  constructor(
    readonly counts: RedisCounts,
    readonly counted: readonly CountedLimit[],
    readonly kinds: PolicyKinds,
  ) {
    this.limits = counted.map(({ limit }) => limit)
    if (!counts.parts.connection.port.cluster) this.#only = kinds.at(0)
  }

  decide(verb: Verb, keys: Keys, cost: number, reply: Reply): void {
    const { counts } = this
    const batcher = verb === 'consume' ? counts.consumes : counts.peeks
    if (this.#only !== undefined) batcher.decide(this.#only, keys, cost, reply)
    else if (typeof keys === 'string' || keys.length === 1) {
      batcher.decide(this.kinds.at(counts.keys.tagOf(keyAt(keys, 0))), keys, cost, reply)
    } else this.#decideApart(verb, keys, cost, reply)
  }

  change(change: Change, keys: Keys, endsAt?: number): Promise<void> {
    return this.counts.change(change, chargesFor(this.counted, keys), endsAt)
  }

  /** Of keys that may be in several slots. */
  #decideApart(verb: Verb, keys: Keys, cost: number, reply: Reply): void {
    const { counts } = this
    const spending = verb === 'consume'
    const giveBack = async (receipts: readonly ChargeReceipt[]) => {
      if (spending) await counts.giveBack(receipts, cost)
    }
    const movesTo = (tag: number) => reply.movesTo?.(counts.keys.serverOf(tag))
    const groups = groupByTag(chargesFor(this.counted, keys), ({ key }) => counts.keys.tagOf(key))
    const batcher = spending ? counts.consumes : counts.peeks
    consumeApart(groups, batcher, counts.peeks, cost, reply.endsAt, movesTo, giveBack).then(
      ({ verdicts, chargedAt }) => reply.resolve(verdicts, performance.now(), chargedAt),
      error => reply.reject(error),
    )
  }
}
