import { type LeaseBook, Leases } from '../../leases/leases.js'
import { RedisSeller } from '../../leases/redis-seller.js'
import { type LeaseOptions, type LeaseSettings, parseLeases } from '../../leases/terms.js'
import type { BlockRule, Denials, Strikes } from '../../limiter/block-rule.js'
import type { Clock } from '../../limiter/core/clock.js'
import type { Verdict } from '../../limiter/core/decision.js'
import { type Duration, parseDurationOrZero } from '../../limiter/core/duration.js'
import { PolicyError } from '../../limiter/core/errors.js'
import { keySegment } from '../../limiter/core/key-segment.js'
import type { Limit } from '../../limiter/core/limit.js'
import {
  checkClock,
  checkInteger,
  checkObject,
  checkOptions,
  checkText,
  type OptionNames,
} from '../../limiter/core/options.js'
import type { OutageWarnings } from '../../limiter/core/warnings.js'
import { OFFERS, offersOf, type StoreOffers } from '../../limiter/offers.js'
import {
  type Asker,
  type BoundPolicy,
  type Charge,
  type ChargeReceipt,
  ClockSteps,
  type Store,
} from '../../limiter/store.js'
import type { LineGuard, StoreLines } from '../../limiter/store-lines.js'
import { type RedisLine, RedisLines, ScriptedLine } from '../../waiting/line/limiter-lines.js'
import type { ClientPort, RedisClient } from '../client.js'
import { portOf, redisWarnings } from '../clients.js'
import { BatchKinds } from './batch.js'
import { Batcher, SendScheduler } from './batcher.js'
import { Changes } from './changes.js'
import { ChargeKeys } from './charge-keys.js'
import { consumeApart, groupByTag } from './slots.js'
import { StoreScripts } from './store-scripts.js'

/** Options of a `RedisStore`. */
export interface RedisStoreOptions {
  /** The beginning of every key; default 'spillway'. */
  prefix?: string
  /** Default: the server's TIME. Pass a clock only in tests and simulations. */
  clock?: Clock
  /**
   * Most decisions in one script call; integer ≥ 1, default 128. Policies with several limits use fewer: about 1 ms of
   * work.
   */
  maxBatch?: number
  /**
   * On a cluster: the number of hash tags over which the keys are spread, evenly over the slots. Integer 1 to 1024,
   * default 64.
   */
  tags?: number
  /**
   * Default false. true: a process buys units of a busy key in advance and spends them without asking Redis. The limit
   * is never exceeded, with any number of processes, through crashes and pauses. Redis decides keys that are not busy,
   * and limits too small to divide, as before. Not for 'leaky-bucket' (with `{ … }`: `PolicyError` when a limiter with
   * such a limit is built; with true: Redis decides). A request may be denied while other processes hold unspent units.
   */
  leases?: boolean | LeaseOptions
  /**
   * Default '1s'. Until Redis has answered this process for the first time, decisions wait for it (connecting, loading
   * the script) until this long after the first of them was asked, or their own deadline if that ends later: so a
   * process that has just started counts where the others do. One span for all decisions over a client. A connection
   * that is refused, or was closed, ends it at once. 0: the deadline from the start.
   */
  connectDeadline?: Duration
}

/** A limit that a store meets for the first time. */
export interface NewLimit {
  readonly limiter: string
  readonly limit: Limit
  /** The number of hash tags over which its keys are spread; undefined if all keys are on one server. */
  readonly tags: number | undefined
}

/** The options, checked and with their defaults. */
interface RedisStoreSettings {
  readonly prefix: string
  readonly clock: Clock | undefined
  readonly maxBatch: number
  readonly tags: number
  /** Undefined: no leases. */
  readonly leases: LeaseSettings | undefined
  readonly connectDeadlineMs: number
}

const OPTIONS: OptionNames<RedisStoreOptions> = {
  prefix: true,
  clock: true,
  maxBatch: true,
  tags: true,
  leases: true,
  connectDeadline: true,
}
const EXAMPLE = '{ prefix: "app" }'
const MOST_TAGS = 1024

/** Throws `PolicyError` for options that mean nothing. */
function parseRedisStoreOptions(options: RedisStoreOptions): RedisStoreSettings {
  checkObject('RedisStore', options, EXAMPLE)
  if ('shareResets' in options) {
    throw new PolicyError(
      'RedisStore: shareResets: leave it out: a denial is remembered for at most 1 s, so that a reset counts in every ' +
        'process within a second',
    )
  }
  checkOptions('RedisStore', options, OPTIONS, EXAMPLE)
  const { prefix = 'spillway', clock, maxBatch = 128, tags = 64, leases, connectDeadline = '1s' } = options
  checkText(prefix, 'RedisStore: prefix', 'spillway')
  if (clock !== undefined) checkClock(clock, 'RedisStore: clock')
  checkInteger(maxBatch, 'RedisStore: maxBatch', 128, 1)
  checkInteger(tags, 'RedisStore: tags', 64, 1, MOST_TAGS)
  return {
    prefix,
    clock,
    maxBatch,
    tags,
    leases: parseLeases(leases, 'RedisStore'),
    connectDeadlineMs: parseDurationOrZero(connectDeadline, 'RedisStore: connectDeadline'),
  }
}

/** The store of `src/index.ts`, without what others add to it. */
export class RedisStore implements Store {
  /** @internal */
  readonly source = 'redis'
  readonly clock?: Clock
  readonly countsCalendars = true
  /** The client as given. */
  readonly client: RedisClient
  /** The beginning of every key. */
  readonly prefix: string
  /** The node of a cluster that has the charge's slot, as far as the client knows. undefined: there is one server. */
  readonly serverOf?: (charge: Charge) => string
  /** @internal Called when this store meets a limit under the name of a limiter for the first time. */
  onNewLimit?: (event: NewLimit) => void
  readonly #port: ClientPort
  readonly #connectDeadlineMs: number
  readonly #keys: ChargeKeys
  readonly #consumes: Batcher
  readonly #peeks: Batcher
  readonly #scripts: StoreScripts
  readonly #changes: Changes
  /** By tag: in a cluster each tag may be on another server. */
  readonly #steps: ClockSteps[] = []
  readonly #kinds: BatchKinds
  readonly #leases: Leases | undefined

  /**
   * `client`: a `Redis` or `Cluster` of ioredis or iovalkey, a client, cluster or sentinel of node-redis, a
   * `GlideClient` or `GlideClusterClient`, or a `Redis` of @upstash/redis (Redis over HTTP). The store never closes it.
   */
  constructor(client: RedisClient, options: RedisStoreOptions = {}) {
    const { prefix, clock, maxBatch, tags, leases, connectDeadlineMs } = parseRedisStoreOptions(options)
    this.clock = clock
    this.client = client
    this.prefix = prefix
    this.#connectDeadlineMs = connectDeadlineMs
    this.#port = portOf(client, 'RedisStore')
    this.#keys = new ChargeKeys(keySegment(prefix), this.#port, tags, (limiter, limit) => {
      this.onNewLimit?.({ limiter, limit, tags: this.#port.cluster ? tags : undefined })
    })
    if (this.#port.cluster) this.serverOf = charge => this.#keys.serverOf(this.#keys.tagOf(charge))
    // Looked up once, because the global is a getter: for a decision from a lease it would take a tenth of the time of
    // reading the clock.
    const { performance: processTime } = globalThis
    // A given clock is checked for steps where it is read.
    const decided = (tag: number, nowMs: number, askedAt: number) => {
      if (clock === undefined) this.#stepsOf(tag).note(nowMs, askedAt, processTime.now())
    }
    const sendEarlier = (keys: readonly string[]) => {
      if (!this.#consumes.holds(keys) && !this.#peeks.holds(keys)) return
      this.#consumes.flush()
      this.#peeks.flush()
    }
    this.#scripts = new StoreScripts(this.#port, this.#keys, clock && (() => this.#nowOf(clock)), sendEarlier)
    this.#kinds = new BatchKinds(this.#keys)
    const scheduler = new SendScheduler(this.#port)
    this.#consumes = new Batcher(this.#scripts, this.#kinds, maxBatch, scheduler, true, decided)
    this.#peeks = new Batcher(this.#scripts, this.#kinds, maxBatch, scheduler, false, decided)
    this.#changes = new Changes(this.#scripts)
    if (leases === undefined) return
    const selling = { scripts: this.#scripts, changes: this.#changes, giveBack: this.giveBack.bind(this) }
    this.#leases = new Leases({
      settings: leases,
      sellerOf: (terms, limiter) => new RedisSeller(selling, terms, limiter),
      now: clock === undefined ? () => processTime.now() : () => clock.now(),
      askStore: (verb, charges, cost, asker) => this.#askRedis(verb, charges, cost, asker),
    })
  }

  /** @internal */
  get [OFFERS](): StoreOffers {
    return this
  }

  /** @internal */
  get redis() {
    return this
  }

  /** @internal */
  sharesCountsWith(other: Store): boolean {
    const place = offersOf(other)?.redis
    return place?.client === this.client && place.prefix === this.prefix
  }

  /** @internal See the option `connectDeadline`. */
  connectsUntil(): number {
    const since = this.#scripts.timely.connectsSince()
    return since === undefined ? 0 : since + this.#connectDeadlineMs
  }

  /** @internal Leases look at each charge. */
  bind(policy: readonly Limit[], limiter: string | undefined): BoundPolicy | undefined {
    if (this.#leases !== undefined) return undefined
    const kinds = this.#kinds.of(policy.map(limit => ({ limit, limiter })))
    const only = this.#port.cluster ? undefined : kinds.at(0)
    return {
      ask: (verb, key, cost, asker) => {
        const batcher = verb === 'consume' ? this.#consumes : this.#peeks
        batcher.ask(only ?? kinds.at(this.#keys.tagOf({ key })), key, cost, asker)
      },
    }
  }

  /**
   * @internal Whether `ask` gives what this method would: users replace methods, to spy on them or to make them fail.
   */
  isAskable(verb: 'consume' | 'peek'): boolean {
    return verb === 'consume' ? this.consume === consume : this.peek === peek
  }

  /** Spends `cost` from all charges or from none. Rejects with `StoreError`. */
  consume(charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> {
    return new Promise((resolve, reject) => this.ask('consume', charges, cost, { resolve, reject }))
  }

  peek(charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> {
    return new Promise((resolve, reject) => this.ask('peek', charges, cost, { resolve, reject }))
  }

  /**
   * `consume` or `peek` without a promise.
   *
   * @internal Check `isAskable` first: users may have replaced `consume`.
   */
  ask(verb: 'consume' | 'peek', charges: readonly Charge[], cost: number, asker: Asker): void {
    if (!this.#leases?.ask(verb, charges, cost, asker)) this.#askRedis(verb, charges, cost, asker)
  }

  /**
   * @internal The leases of this process under a policy; undefined if each decision asks Redis. Throws `PolicyError`:
   *   see the option `leases`.
   */
  leasesOf(limits: readonly Limit[], limiter: string | undefined): LeaseBook | undefined {
    return this.#leases?.bookOf(limits, limiter)
  }

  /**
   * @internal A request that waited in line was granted: the verdicts with the units that this process holds on leases.
   */
  besideLeases(charges: readonly Charge[], verdicts: readonly Verdict[], grantedAt: number): readonly Verdict[] {
    return this.#leases?.granted(charges, verdicts, grantedAt) ?? verdicts
  }

  #askRedis(verb: 'consume' | 'peek', charges: readonly Charge[], cost: number, by: Asker): void {
    const asker = this.#leases?.beside(verb, charges, by) ?? by
    const spending = verb === 'consume'
    const asked = spending ? this.#consumes : this.#peeks
    if (charges.length === 1 || !this.#port.cluster) {
      asked.ask(this.#kinds.of(charges).at(this.#keys.tagOf(charges[0])), charges, cost, asker)
      return
    }
    const giveBack = async (receipts: readonly ChargeReceipt[]) => {
      if (spending) await this.giveBack(receipts, cost)
    }
    const asks = (tag: number) => asker.asks?.(this.#keys.serverOf(tag))
    const groups = groupByTag(charges, charge => this.#keys.tagOf(charge))
    consumeApart(groups, asked, this.#peeks, cost, asker.endsAt, asks, giveBack).then(
      ({ verdicts, chargedAt }) => asker.resolve(verdicts, performance.now(), chargedAt),
      error => asker.reject(error),
    )
  }

  async refund(charges: readonly Charge[], cost: number, endsAt?: number): Promise<void> {
    if (cost === 0) return
    await this.#changes.run('refund', charges, { units: cost, endsAt })
    this.#leases?.wake(charges)
  }

  async giveBack(receipts: readonly ChargeReceipt[], units: number, endsAt?: number): Promise<void> {
    if (units === 0) return
    const words = (tag: number): [string, string] => {
      const { from, until } = this.#stepsOf(tag)
      return from <= until ? [String(from), String(until)] : ['', '']
    }
    await this.#changes.run('settle', receipts, { units, words, endsAt })
    this.#leases?.wake(receipts)
  }

  async charge(charges: readonly Charge[], cost: number, endsAt?: number): Promise<void> {
    if (cost === 0) return
    const answered = this.#leases?.charge(charges, cost)
    await this.#changes.run('charge', charges, { units: cost, endsAt, answered })
  }

  /** Makes each key as if it was never used under its limit; blocks stay. Rejects with `StoreError`. */
  async reset(charges: readonly Charge[], endsAt?: number): Promise<void> {
    this.#leases?.end(charges)
    await this.#changes.run('reset', charges, { endsAt })
    // What was bought meanwhile may have been sold before.
    this.#leases?.end(charges)
  }

  async block(charges: readonly Charge[], forMs: number, endsAt?: number): Promise<void> {
    this.#leases?.end(charges)
    await this.#changes.run('block', charges, { units: forMs, endsAt })
    this.#leases?.end(charges)
  }

  /** @internal Counts denials of a key that is not blocked, and blocks it if they are too many. */
  async strike(charge: Charge, denials: Denials, rule: BlockRule, endsAt?: number): Promise<Strikes> {
    const strikes = await this.#changes.strike(charge, denials, rule, endsAt)
    if (strikes.isNew) this.#leases?.end([charge])
    return strikes
  }

  /**
   * The line in which requests wait for these charges together; undefined if the charges are in several slots of a
   * cluster.
   *
   * @internal For `acquire`.
   */
  lineOf(charges: readonly Charge[]): RedisLine | undefined {
    const tag = this.#keys.tagOf(charges[0])
    if (charges.some(charge => this.#keys.tagOf(charge) !== tag)) return undefined
    return new ScriptedLine(this.#scripts, charges, tag, () => this.#leases?.lineAnswered(charges))
  }

  /** @internal The lines of one limiter in this store. */
  lines(guard: LineGuard): StoreLines {
    return new RedisLines(this, guard)
  }

  /** @internal The warnings of an outage; `meanwhile` says what happens until it ends. */
  outageWarnings(meanwhile: string): OutageWarnings {
    return redisWarnings(this.client, meanwhile)
  }

  /** Gives back unspent units of leases. The client stays open. */
  async close(): Promise<void> {
    await this.#leases?.close()
  }

  /** As `close`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
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

const { consume, peek } = RedisStore.prototype
