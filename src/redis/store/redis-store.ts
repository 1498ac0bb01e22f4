import { asyncDispose } from '../../limiter/core/async-dispose.js'
import type { Clock } from '../../limiter/core/clock.js'
import { type Duration, parseDurationOrZero } from '../../limiter/core/duration.js'
import { PolicyError } from '../../limiter/core/errors.js'
import {
  checkClock,
  checkInteger,
  checkObject,
  checkOptions,
  checkText,
  type OptionNames,
} from '../../limiter/core/options.js'
import type { Counts } from '../../limiter/port.js'
import { SharedStore } from '../../limiter/shared-store.js'
import type { RedisClient, RedisConnection } from '../client.js'
import { keepPlace } from '../redis-place.js'
import { BlockedKeys, type StoreInspectOptions, type StoreView } from './blocked-keys.js'
import { RedisCounts } from './redis-counts.js'

/** Options of the counts in Redis. */
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
   * Default '1s'. Until Redis has answered this process for the first time, decisions wait for it (connecting, loading
   * the script) until this long after the first of them was asked, or their own deadline if that ends later: so a
   * process that has just started counts where the others do. One span for all decisions over a client. A connection
   * that is refused, or was closed, ends it at once. 0: the deadline from the start.
   */
  connectDeadline?: Duration
}

const OPTIONS: OptionNames<RedisStoreOptions> = {
  prefix: true,
  clock: true,
  maxBatch: true,
  tags: true,
  connectDeadline: true,
}
const EXAMPLE = '{ prefix: "app" }'
const MOST_TAGS = 1024

/** Throws `PolicyError` for options that mean nothing. `more`: the names of options that others read. */
function parseRedisStoreOptions(options: RedisStoreOptions, more: Readonly<Record<string, true>>) {
  checkObject('RedisStore', options, EXAMPLE)
  if ('shareResets' in options) {
    throw new PolicyError(
      'RedisStore: shareResets: leave it out: a denial is remembered for at most 1 s, so that a reset counts in every ' +
        'process within a second',
    )
  }
  checkOptions('RedisStore', options, { ...OPTIONS, ...more }, EXAMPLE)
  const { prefix = 'spillway', clock, maxBatch = 128, tags = 64, connectDeadline = '1s' } = options
  checkText(prefix, 'RedisStore: prefix', 'spillway')
  if (clock !== undefined) checkClock(clock, 'RedisStore: clock')
  checkInteger(maxBatch, 'RedisStore: maxBatch', 128, 1)
  checkInteger(tags, 'RedisStore: tags', 64, 1, MOST_TAGS)
  const connectDeadlineMs = parseDurationOrZero(connectDeadline, 'RedisStore: connectDeadline')
  return { prefix, clock, maxBatch, tags, connectDeadlineMs }
}

/** A feature of a store: it wraps the counts, and gives back what it holds. */
export interface CountsFeature {
  readonly counts: Counts
  close?(): Promise<void>
}

/** The store of `src/index.ts`, without what others add to it. */
export class RedisStore extends SharedStore {
  /** The client as given. */
  readonly client: RedisClient
  /** The beginning of every key. */
  readonly prefix: string
  readonly #close: CountsFeature['close']
  readonly #blocked: BlockedKeys

  /** `add`: wraps the counts; `more`: the names of the options that it reads. */
  constructor(
    connection: RedisConnection,
    options: RedisStoreOptions = {},
    add: (counts: RedisCounts) => CountsFeature = counts => ({ counts }),
    more: Readonly<Record<string, true>> = {},
  ) {
    const settings = parseRedisStoreOptions(options, more)
    const redisCounts = new RedisCounts({ connection, ...settings })
    const { counts, close } = add(redisCounts)
    super(counts)
    this.#blocked = new BlockedKeys(redisCounts)
    this.client = connection.client
    this.prefix = settings.prefix
    this.#close = close
    keepPlace(this, { client: connection.client, prefix: settings.prefix })
  }

  /**
   * The keys that are blocked under limiters over this store, by whomever: 50, or `limit` (0 to 1000). It knows the
   * limits of limiters that this process has built. One call of Redis that changes nothing; on a cluster one for each of
   * the store's `tags`. Rejects with `StoreError` when Redis fails. Throws `PolicyError` for invalid options.
   *
   * @example
   * const { blocked } = await store.inspect({ limiter: 'login' })
   * for (const { key, until } of blocked.items) console.log(key, new Date(until))
   */
  inspect(options: StoreInspectOptions): Promise<StoreView> {
    return this.#blocked.inspect(options)
  }

  /** Gives back what it holds. The client stays open. */
  async close(): Promise<void> {
    await this.#close?.()
  }

  /** As `close`, for `await using`. */
  [asyncDispose](): Promise<void> {
    return this.close()
  }
}
