import type { Clock } from '../clock.js'
import type { Verdict } from '../decision.js'
import { PolicyError, StoreError, shown } from '../errors.js'
import { type ClientPort, portOf, type RedisClient } from '../redis/client.js'
import { keySegment } from '../redis/keys.js'
import { runScript } from '../redis/run-script.js'
import { refund, reset } from '../redis/scripts.js'
import type { Charge, Store } from '../store.js'
import { Batcher } from './redis-batcher.js'
import { ChargeKeys } from './redis-charge-keys.js'
import { limitArguments } from './redis-wire.js'

export interface RedisStoreOptions {
  /** What every key begins with; default 'spillway'. */
  prefix?: string
  /** Default: the server's TIME. A clock given here is for tests and simulation. */
  clock?: Clock
}

/**
 * State in Redis, shared by all processes that use the same server, prefix and limiter name. The server decides, by its own
 * clock, in one script call; decisions of one turn of the event loop share that call.
 */
export class RedisStore implements Store {
  readonly clock?: Clock
  readonly #port: ClientPort
  readonly #keys: ChargeKeys
  readonly #consumes: Batcher
  readonly #peeks: Batcher

  /** `client`: an ioredis `Redis` or `Cluster`. It stays yours: this store never closes it. */
  constructor(client: RedisClient, options: RedisStoreOptions = {}) {
    const { prefix = 'spillway', clock } = options
    if (typeof prefix !== 'string' || prefix === '') {
      throw new PolicyError(`RedisStore: prefix ${shown(prefix)}: expected a text that is not empty, like "spillway"`)
    }
    if (clock !== undefined && typeof clock?.now !== 'function') {
      throw new PolicyError(`RedisStore: clock ${shown(clock)}: expected an object with now(), like new ManualClock()`)
    }
    this.clock = clock
    this.#port = portOf(client, 'RedisStore')
    this.#keys = new ChargeKeys(keySegment(prefix))
    this.#consumes = new Batcher(this.#port, this.#keys, 'consume', () => this.#now())
    this.#peeks = new Batcher(this.#port, this.#keys, 'peek', () => this.#now())
  }

  consume(charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> {
    return this.#consumes.ask(charges, cost)
  }

  peek(charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> {
    return this.#peeks.ask(charges, cost)
  }

  async refund(charges: readonly Charge[], cost: number): Promise<void> {
    const limits = charges.map(charge => charge.limit)
    const args = [this.#now(), String(cost), ...limitArguments(limits)]
    await this.#run(refund, charges, args)
  }

  async reset(charges: readonly Charge[]): Promise<void> {
    await this.#run(reset, charges, [])
  }

  async #run(script: typeof refund, charges: readonly Charge[], args: string[]): Promise<void> {
    const keys = charges.map(charge => this.#keys.of(charge))
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
