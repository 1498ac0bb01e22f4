import { PolicyError, shown } from '../../limiter/core/errors.js'
import type { RateLimiterRes } from './rate-limiter-res.js'

/** Options of one call. */
export interface CallOptions {
  /** In seconds: the duration of a new key, instead of the limiter's. */
  readonly customDuration?: unknown
  readonly [option: string]: unknown
}

/** What a limiter does. Each method throws until a class implements it. */
class LimiterMethods {
  /** Consumes points. Rejects with `RateLimiterRes` where they exceed the limit; they count all the same. */
  consume(_key: string | number, _pointsToConsume?: number, _options?: CallOptions): Promise<RateLimiterRes> {
    throw missing(this, 'consume')
  }

  /** Consumes points without refusing. */
  penalty(_key: string | number, _points?: number, _options?: CallOptions): Promise<RateLimiterRes> {
    throw missing(this, 'penalty')
  }

  /** Gives points back; the count may fall below 0. */
  reward(_key: string | number, _points?: number, _options?: CallOptions): Promise<RateLimiterRes> {
    throw missing(this, 'reward')
  }

  /** What a key has consumed; null if nothing is known of it. */
  get(_key: string | number, _options?: CallOptions): Promise<RateLimiterRes | null> {
    throw missing(this, 'get')
  }

  /** Sets the points of a key for so many seconds; 0: without end. */
  set(_key: string | number, _points: number, _secDuration: number, _options?: CallOptions): Promise<RateLimiterRes> {
    throw missing(this, 'set')
  }

  /** Refuses a key for so many seconds; 0: without end. */
  block(_key: string | number, _secDuration: number, _options?: CallOptions): Promise<RateLimiterRes> {
    throw missing(this, 'block')
  }

  /** Forgets a key; false if nothing was known of it. */
  delete(_key: string | number, _options?: CallOptions): Promise<boolean> {
    throw missing(this, 'delete')
  }
}

/** The error of a member that a class of limiters has left out. */
function missing(limiter: object, member: string): Error {
  return new Error(`${limiter.constructor.name}: You have to implement the method '${member}'!`)
}

/** What all limiters do. */
export interface LimiterLike extends LimiterMethods {
  readonly keyPrefix: string
  blockDuration: number
  execEvenly: boolean
}

const METHODS = ['consume', 'penalty', 'reward', 'get', 'set', 'block', 'delete'] as const

/** True for our limiters, those of rate-limiter-flexible, and any object with all their methods. */
export function isLimiter(value: unknown): value is LimiterLike {
  if (typeof value !== 'object' || value === null) return false
  return METHODS.every(method => typeof (value as Partial<LimiterLike>)[method] === 'function')
}

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
  /**
   * Default: none. Decides when the store fails, like `new RateLimiterMemory({ points: 5, duration: 1 })`. It takes
   * over this limiter's `blockDuration` and `execEvenly`.
   */
  insuranceLimiter?: LimiterLike
}

/** Options of limiters over a store. */
export interface IRateLimiterStoreOptions extends IRateLimiterOptions {
  /** A client of ioredis, iovalkey, node-redis or GLIDE, like `new Redis(url)`, which is never closed here. */
  // biome-ignore lint/suspicious/noExplicitAny: as rate-limiter-flexible declares it
  storeClient: any
  /** Declared as in rate-limiter-flexible; ignored here. */
  storeType?: string
  /**
   * A key that has consumed so many points is refused without asking the store. At least `points`; default 0: never.
   */
  inMemoryBlockOnConsumed?: number
  /** In whole seconds: for how long. Default 0: until its duration ends. */
  inMemoryBlockDuration?: number
  /**
   * A key is blocked for `blockDuration` when it has consumed so many points. At least `points`; default 0: when it has
   * consumed more than `points`.
   */
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
  /** A script of your own would count in keys of its own: it is refused with `PolicyError`. */
  customIncrTtlLuaScript?: never
}

/** The options and keys of a limiter. Its methods throw until a class implements them. */
export class RateLimiterAbstract extends LimiterMethods implements LimiterLike {
  #points = 0
  #duration = 0
  #minDelayMs: number | undefined
  #keyPrefix = ''
  /** In seconds: how long a key is blocked when it first consumes more than its points. 0: not at all. */
  blockDuration: number
  /** true: allowed calls are delayed so that they spread over the duration. */
  execEvenly: boolean

  /** Throws `PolicyError` for invalid `points`, `duration` or `keyPrefix`. */
  constructor(opts: IRateLimiterOptions) {
    super()
    // Services in JavaScript may omit them: the error is then the one of rate-limiter-flexible.
    const { points, duration, blockDuration = 0, execEvenly = false, execEvenlyMinDelayMs, keyPrefix } = opts ?? {}
    this.points = points
    this.duration = duration
    this.blockDuration = blockDuration
    this.execEvenly = Boolean(execEvenly)
    this.#minDelayMs = execEvenlyMinDelayMs
    this.keyPrefix = keyPrefix ?? 'rlflx'
  }

  /** Points that may be consumed in a duration. */
  get points(): number {
    return this.#points
  }

  /** How many points a key has in each duration. */
  set points(value: number) {
    if (!Number.isFinite(value)) {
      throw new PolicyError(
        `points must be set and must be a finite number: given ${shown(value)}, expected one like 100`,
      )
    }
    this.#points = value
  }

  /** In seconds. 0: it never ends. */
  get duration(): number {
    return this.#duration
  }

  /** Seconds until points are free again; 0: never. */
  set duration(value: number) {
    if (!(Number.isFinite(value) && value >= 0)) {
      throw new PolicyError(
        `duration must be set and must be a finite, non-negative number: given ${shown(value)}, expected ` +
          'seconds like 60',
      )
    }
    this.#duration = value
  }

  /** The duration in ms. */
  get msDuration(): number {
    return this.#duration * 1000
  }

  /** `blockDuration` in ms. */
  get msBlockDuration(): number {
    return this.blockDuration * 1000
  }

  /** The shortest delay of `execEvenly`. Default: the duration divided by the points. */
  get execEvenlyMinDelayMs(): number {
    if (this.#minDelayMs !== undefined) return this.#minDelayMs
    return this.#points > 0 ? Math.ceil(this.msDuration / this.#points) : 0
  }

  /** The least delay between actions with `execEvenly`, ms. */
  set execEvenlyMinDelayMs(value: number) {
    this.#minDelayMs = value
  }

  /** The beginning of all keys, before a colon; '' for none. */
  get keyPrefix(): string {
    return this.#keyPrefix
  }

  /** The beginning of all keys. */
  set keyPrefix(value: string) {
    if (typeof value !== 'string') {
      throw new PolicyError(`keyPrefix must be string: given ${shown(value)}, expected one like "login"`)
    }
    this.#keyPrefix = value
  }

  /** The key as the store has it. */
  getKey(key: string | number): string {
    return this.#keyPrefix === '' ? `${key}` : `${this.#keyPrefix}:${key}`
  }

  /** The key without the prefix. */
  parseKey(rlKey: string): string {
    return this.#keyPrefix === '' ? rlKey : rlKey.substring(this.#keyPrefix.length + 1)
  }
}

/** The base of wrappers that can replace a limiter. Each member throws until a class implements it. */
export class RateLimiterCompatibleAbstract extends LimiterMethods implements LimiterLike {
  /** The beginning of all keys. */
  get keyPrefix(): string {
    throw missing(this, 'keyPrefix')
  }

  /** How many seconds a key is blocked that consumes too much; 0: it is not. */
  get blockDuration(): number {
    throw missing(this, 'blockDuration')
  }

  /** How many seconds a key is blocked that consumes too much; 0: it is not. */
  set blockDuration(_seconds: number) {
    throw missing(this, 'blockDuration')
  }

  /** Whether actions are delayed so that they are spread over the duration. */
  get execEvenly(): boolean {
    throw missing(this, 'execEvenly')
  }

  /** Whether actions are delayed so that they are spread over the duration. */
  set execEvenly(_evenly: boolean) {
    throw missing(this, 'execEvenly')
  }
}

/** A limiter, or a wrapper in its place. */
export type RateLimiterLike = RateLimiterAbstract | RateLimiterCompatibleAbstract
