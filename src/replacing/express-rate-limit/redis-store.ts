import { type Duration, parseOption } from '../../limiter/core/duration.js'
import { PolicyError, StoreError, shown } from '../../limiter/core/errors.js'
import { keySegment } from '../../limiter/core/key-segment.js'
import { checkFunction } from '../../limiter/core/options.js'
import type { RedisClient } from '../../redis/client.js'
import { connectionOf } from '../../redis/clients.js'
import type { IoredisLike } from '../../redis/ioredis.js'
import { RedisStore as CoreRedisStore } from '../../redis/store/redis-store.js'
import { literal, unlinkAll } from '../../redis/unlink-all.js'
import { HITS_LIMIT, HITS_LIMITER, HitsStore, windowOf } from './hits.js'
import type { Options } from './options.js'

/**
 * Sends a command: `(...args) => client.call(...args)` with ioredis, `(...args) => client.sendCommand(args)` with
 * node-redis.
 */
export type SendCommand = (...args: string[]) => Promise<unknown>

/** The same for a cluster; receives the key of the command. */
export type SendCommandCluster = (details: { key?: string; isReadOnly: boolean; command: string[] }) => Promise<unknown>

/**
 * Adapts a function that sends commands, as `rate-limit-redis` takes one, to the shape of a client. It does not know
 * whether it is connected, so only the deadline limits its commands.
 */
function commandClient(sendCommand?: SendCommand, sendCommandCluster?: SendCommandCluster): RedisClient {
  const send = sendCommand ?? sendCommandCluster
  checkFunction(send, 'RedisStore: sendCommand', '(...args) => client.call(...args), or better the client itself')
  // Called asynchronously, so that an error of the function becomes a rejection.
  const ask = async (key: string | undefined, command: string[]) =>
    sendCommand ? sendCommand(...command) : sendCommandCluster!({ key, isReadOnly: false, command })
  const client: IoredisLike & Record<'scan' | 'unlink', unknown> = {
    status: 'ready',
    isCluster: sendCommand === undefined,
    evalsha: (sha1, count, ...rest) => ask(String(rest[0]), ['EVALSHA', sha1, String(count), ...rest.map(String)]),
    eval: (source, count, ...rest) => ask(String(rest[0]), ['EVAL', source, String(count), ...rest.map(String)]),
    connect: async () => {},
    on: () => {},
    scan: (...args: unknown[]) => ask(undefined, ['SCAN', ...args.map(String)]),
    unlink: (key: string) => ask(key, ['UNLINK', key]),
  }
  if (sendCommand) return client
  const nodes = () => {
    throw new StoreError(
      'RedisStore: resetAll over a cluster: expected the client itself, like new RedisStore({ client })',
    )
  }
  return Object.assign(client, { nodes })
}

/** Options of the drop-in's `RedisStore`. */
export interface RedisStoreOptions {
  /**
   * A client of ioredis, iovalkey, node-redis or GLIDE, single or cluster, like `new Redis(url)`. The store never
   * closes it. Mutually exclusive with the two functions.
   */
  client?: RedisClient
  /** As in `rate-limit-redis`. Prefer `client`, which reports when it is not connected. */
  sendCommand?: SendCommand
  /** As in `rate-limit-redis`, for a cluster: also receives the key, which determines the node. */
  sendCommandCluster?: SendCommandCluster
  /** The beginning of all keys; default 'rl:'. Use different prefixes for limiters that must not share counts. */
  prefix?: string
  /** Default 1 s: a server that has not answered by then has failed for this request. */
  deadline?: Duration
}

const OPTIONS = ['client', 'sendCommand', 'sendCommandCluster', 'prefix', 'deadline']

/**
 * Counts hits in Redis, for all processes together, by the server's clock. Also a store for express-rate-limit itself.
 * The requests of one turn of the event loop share a script call; every key has a lifetime.
 *
 * While Redis fails, methods reject with `StoreError`: within the deadline, and at once when it is known to fail.
 * Throws `PolicyError` for invalid options.
 */
export class RedisStore extends HitsStore {
  readonly localKeys = false
  /** The beginning of all keys. */
  readonly prefix: string
  readonly #client: RedisClient

  constructor(client: RedisClient, options?: Omit<RedisStoreOptions, 'client'>)
  constructor(options: RedisStoreOptions)
  constructor(given: RedisClient | RedisStoreOptions, more?: RedisStoreOptions) {
    const options = optionsOf(given, more)
    const { sendCommand, sendCommandCluster, prefix = 'rl:', deadline = 1000 } = options
    if (typeof prefix !== 'string' || prefix.replace(/:$/, '') === '') {
      throw new PolicyError(`RedisStore: prefix ${shown(prefix)}: expected a text that is not empty, like "rl:"`)
    }
    const client = options.client ?? commandClient(sendCommand, sendCommandCluster)
    const core = new CoreRedisStore(connectionOf(client, 'RedisStore'), { prefix: corePrefix(prefix) })
    super(core, parseOption(deadline, 'RedisStore: deadline'))
    this.prefix = prefix
    this.#client = client
  }

  /** Takes the length of the window from the limiter's options. Throws `PolicyError` for an invalid length. */
  override init({ windowMs }: Pick<Options, 'windowMs'>): void {
    super.init({ windowMs: parseOption(windowOf(windowMs), 'RedisStore: windowMs') })
  }

  /** Deletes all keys with this prefix: a scan of the server, which takes time in proportion to the database. */
  async resetAll(): Promise<void> {
    // Of every window: see `countName`.
    const pattern = `${literal(keySegment(corePrefix(this.prefix)))}:*:${HITS_LIMITER}:${HITS_LIMIT}@*`
    try {
      await unlinkAll(this.#client, pattern)
    } catch (cause) {
      throw new StoreError(`Redis failed to forget all keys: ${(cause as Error).message}`, { cause })
    }
  }
}

/** A client, or options with a client: recognised by properties that only options have. */
function optionsOf(given: RedisClient | RedisStoreOptions, more: RedisStoreOptions = {}): RedisStoreOptions {
  const isObject = typeof given === 'object' && given !== null
  const isOptions = isObject && Object.keys(given).every(name => OPTIONS.includes(name))
  const options = isOptions ? (given as RedisStoreOptions) : { ...more, client: given as RedisClient }
  if ('resetExpiryOnChange' in (isObject ? given : {}) || 'resetExpiryOnChange' in more) {
    throw new PolicyError(
      'RedisStore: resetExpiryOnChange: the end of a window never changes, as in rate-limit-redis since ' +
        'version 6: expected options without it',
    )
  }
  return options
}

/**
 * Every key has the colon anyway, so the usual colon at the end is removed; prefixes with and without it must not share
 * keys.
 */
function corePrefix(prefix: string): string {
  return prefix.endsWith(':') ? prefix.slice(0, -1) : `${prefix}#`
}
