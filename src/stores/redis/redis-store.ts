import type { Clock } from '../../core/clock.js'
import type { Verdict } from '../../core/decision.js'
import { PolicyError, StoreError, shown } from '../../core/errors.js'
import { checkOptions, type OptionNames } from '../../core/option-names.js'
import type { ClientPort, RedisClient } from '../../redis/client.js'
import { keySegment } from '../../redis/keys.js'
import { portOf } from '../../redis/port-of.js'
import { runScript } from '../../redis/run-script.js'
import type { Script } from '../../redis/script.js'
import { block, reset, settle } from '../../redis/scripts.js'
import type { Asker, Booking, Charge, Store } from '../store.js'
import { Batcher } from './batcher.js'
import { Bookings } from './bookings.js'
import { ChargeKeys } from './charge-keys.js'
import { ResetChannel, type ResetListener } from './reset-listener.js'
import { consumeApart, groupByTag } from './slots.js'
import { limitArguments } from './wire.js'

export interface RedisStoreOptions {
  /** What every key begins with; default 'spillway'. */
  prefix?: string
  /** Default: the server's TIME. A clock given here is for tests and simulation. */
  clock?: Clock
  /** Most decisions in one script call; integer ≥ 1, default 128. */
  maxBatch?: number
  /**
   * Whether processes tell each other of every refund, reset, unblock and settlement that gives back, over one more connection each,
   * so that a denial which one of them remembers ends at once in all. Default false: it ends when its `retryAfterMs` is over.
   */
  shareResets?: boolean
}

const OPTIONS: OptionNames<RedisStoreOptions> = { prefix: true, clock: true, maxBatch: true, shareResets: true }

/**
 * State in Redis, shared by all processes that use the same server, prefix and limiter name. The server decides, by its own
 * clock, in one script call; decisions of one turn of the event loop share that call.
 */
export class RedisStore implements Store {
  readonly clock?: Clock
  readonly client: RedisClient
  readonly prefix: string
  readonly #port: ClientPort
  readonly #keys: ChargeKeys
  readonly #consumes: Batcher
  readonly #peeks: Batcher
  readonly #bookings: Bookings
  readonly #resetNews: ResetChannel | undefined

  /** `client`: an ioredis `Redis` or `Cluster`. It stays yours: this store never closes it. */
  constructor(client: RedisClient, options: RedisStoreOptions = {}) {
    checkOptions('RedisStore', options, OPTIONS, '{ prefix: "app" }')
    const { prefix = 'spillway', clock, maxBatch = 128, shareResets = false } = options
    if (typeof prefix !== 'string' || prefix === '') {
      throw new PolicyError(`RedisStore: prefix ${shown(prefix)}: expected a text that is not empty, like "spillway"`)
    }
    if (clock !== undefined && typeof clock?.now !== 'function') {
      throw new PolicyError(`RedisStore: clock ${shown(clock)}: expected an object with now(), like new ManualClock()`)
    }
    if (!(Number.isSafeInteger(maxBatch) && maxBatch >= 1)) {
      throw new PolicyError(`RedisStore: maxBatch ${shown(maxBatch)}: expected an integer ≥ 1, like 128`)
    }
    this.clock = clock
    this.client = client
    this.prefix = prefix
    this.#port = portOf(client, 'RedisStore')
    this.#keys = new ChargeKeys(keySegment(prefix), this.#port.cluster)
    this.#consumes = new Batcher(this.#port, this.#keys, maxBatch, '1', () => this.#now())
    this.#peeks = new Batcher(this.#port, this.#keys, maxBatch, '0', () => this.#now())
    this.#bookings = new Bookings(client, this.#port, this.#keys, () => this.#now())
    if (shareResets) this.#resetNews = new ResetChannel(client, this.#port, this.#keys.prefix)
  }

  consume(charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> {
    return new Promise((resolve, reject) => this.ask('consume', charges, cost, { resolve, reject }))
  }

  peek(charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> {
    return new Promise((resolve, reject) => this.ask('peek', charges, cost, { resolve, reject }))
  }

  /**
   * `consume` or `peek`, for one who needs no promise.
   *
   * @internal Ask `isAskable` first: `consume` may have become somebody else's.
   */
  ask(verb: 'consume' | 'peek', charges: readonly Charge[], cost: number, asker: Asker): void {
    const spending = verb === 'consume'
    const asked = spending ? this.#consumes : this.#peeks
    if (charges.length === 1 || !this.#port.cluster) {
      asked.ask(charges, cost, this.#keys.tagOf(charges[0]), asker)
      return
    }
    const giveBack = (charges: readonly Charge[]) => (spending ? this.refund(charges, cost) : Promise.resolve())
    consumeApart(this.#groups(charges), asked, this.#peeks, cost, giveBack).then(
      verdicts => asker.resolve(verdicts, performance.now()),
      error => asker.reject(error),
    )
  }

  async refund(charges: readonly Charge[], cost: number): Promise<void> {
    await this.#settle(charges, -cost)
    if (cost > 0) this.#tell(charges)
  }

  charge(charges: readonly Charge[], cost: number): Promise<void> {
    return this.#settle(charges, cost)
  }

  async reset(charges: readonly Charge[]): Promise<void> {
    await this.#each(charges, (charges, tag) => {
      const limits = limitArguments(charges.map(charge => charge.limit))
      return this.#run(reset, this.#statesAndLines(charges, tag), [this.#now(), this.#bookings.channel, ...limits])
    })
    this.#tell(charges)
  }

  async book(charge: Charge, cost: number, maxWaitMs: number, moved: (waitMs: number) => void): Promise<Booking> {
    if (this.#port.state() === 'down') throw new StoreError('the Redis client is not connected')
    try {
      return await this.#bookings.book(charge, cost, maxWaitMs, moved)
    } catch (cause) {
      throw new StoreError(`Redis failed to book: ${(cause as Error).message}`, { cause })
    }
  }

  async block(charges: readonly Charge[], forMs: number): Promise<void> {
    await this.#each(charges, (charges, tag) => {
      const lists = charges.map(charge => this.#keys.blockListOf(charge, tag))
      // Keys, so that a prefix of the client stands before them here as where they are looked up.
      const members = charges.map(charge => this.#keys.keyOf(charge, tag))
      return this.#run(block, [...lists, ...members], [this.#now(), String(forMs)])
    })
    if (forMs === 0) this.#tell(charges)
  }

  onReset(listener: ResetListener): void {
    this.#resetNews?.listen(listener)
  }

  async #settle(charges: readonly Charge[], units: number): Promise<void> {
    if (units === 0) return
    await this.#each(charges, (charges, tag) => {
      const limits = limitArguments(charges.map(charge => charge.limit))
      const args = [this.#now(), String(units), this.#bookings.channel, ...limits]
      return this.#run(settle, this.#statesAndLines(charges, tag), args)
    })
  }

  #tell(charges: readonly Charge[]): void {
    this.#resetNews?.tell(charges.map(({ key }) => key))
  }

  /** The keys of what was spent, then those of who waits for it. */
  #statesAndLines(charges: readonly Charge[], tag: number): string[] {
    const states = charges.map(charge => this.#keys.keyOf(charge, tag))
    return [...states, ...charges.map(charge => this.#keys.lineOf(charge, tag))]
  }

  #groups(charges: readonly Charge[]) {
    return groupByTag(charges, charge => this.#keys.tagOf(charge))
  }

  async #each(
    charges: readonly Charge[],
    act: (charges: readonly Charge[], tag: number) => Promise<void>,
  ): Promise<void> {
    await Promise.all(this.#groups(charges).map(group => act(group.charges, group.tag)))
  }

  async #run(script: Script, keys: readonly string[], args: readonly string[]): Promise<void> {
    if (this.#port.state() === 'down') throw new StoreError('the Redis client is not connected')
    // What was asked before is carried out before.
    this.#consumes.flush()
    this.#peeks.flush()
    try {
      await runScript(this.#port, script, keys, args)
    } catch (cause) {
      throw new StoreError(`Redis failed to ${script.name}: ${(cause as Error).message}`, { cause })
    }
  }

  /** '' asks the script to take the server's time. */
  #now(): string {
    return this.clock === undefined ? '' : String(Math.floor(this.clock.now()))
  }
}

const { consume, peek } = RedisStore.prototype

/** Whether a store is a `RedisStore` whose `consume` or `peek` is its own: users replace methods, to watch them or to make them fail. */
export function isAskable(store: Store, verb: 'consume' | 'peek'): store is RedisStore {
  if (!(store instanceof RedisStore)) return false
  return verb === 'consume' ? store.consume === consume : store.peek === peek
}
