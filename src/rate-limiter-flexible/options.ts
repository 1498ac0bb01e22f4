import type { LimiterLike } from './limiter-like.js'

/** Options of every limiter. */
export interface IRateLimiterOptions {
  /** The beginning of all keys, before a colon; '' for none. Default 'rlflx'. */
  keyPrefix?: string
  /** Points that may be consumed in a duration: any finite number; below 0 all is refused. */
  points: number
  /** In seconds, fractions too. It begins with a key's first points. 0: it never ends. */
  duration: number
  /** Default false. true: allowed calls are delayed so that they spread over the duration. */
  execEvenly?: boolean
  /** The shortest delay of `execEvenly`. Default: the duration divided by the points. */
  execEvenlyMinDelayMs?: number
  /** In seconds: how long a key is blocked when it first consumes more than its points. Default 0: not at all. */
  blockDuration?: number
  /** Decides when the store fails. It takes over this limiter's `blockDuration` and `execEvenly`. */
  insuranceLimiter?: LimiterLike
}

/** Options of limiters over a store. */
export interface IRateLimiterStoreOptions extends IRateLimiterOptions {
  /** A client of ioredis, iovalkey, node-redis or GLIDE, which is never closed here. */
  // biome-ignore lint/suspicious/noExplicitAny: as rate-limiter-flexible declares it
  storeClient: any
  /** Declared as in rate-limiter-flexible; ignored here. */
  storeType?: string
  /** A key that has consumed so many points is refused without asking the store. At least `points`; default 0: never. */
  inMemoryBlockOnConsumed?: number
  /** In whole seconds: for how long. Default 0: until its duration ends. */
  inMemoryBlockDuration?: number
  /** A key is blocked for `blockDuration` when it has consumed so many points. At least `points`; default 0: when it has consumed more than `points`. */
  blockOnConsumed?: number
  /** Declared as in rate-limiter-flexible; ignored here. */
  dbName?: string
  /** Declared as in rate-limiter-flexible; ignored here. */
  tableName?: string
  /** Declared as in rate-limiter-flexible; ignored here. */
  tableCreated?: boolean
}

/** Options of `RateLimiterRedis`. */
export interface IRateLimiterRedisOptions extends IRateLimiterStoreOptions {
  /** Default false. true: an error at once, or the `insuranceLimiter`, while the client is not ready. */
  rejectIfRedisNotReady?: boolean
  /** Not needed: a client is recognised by its shape. */
  useRedisPackage?: boolean
  /** Clients of node-redis 3 and older are not recognised. */
  useRedis3AndLowerPackage?: boolean
  /** Counts in place of our own script. KEYS[1]: the key; ARGV: points to add, duration in whole seconds, the limiter's points and duration. Returns the count and the ms left. */
  customIncrTtlLuaScript?: string
}
