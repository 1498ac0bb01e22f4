import { PolicyError } from '../core/errors.js'
import type { CallOptions } from './call-options.js'
import { evenly } from './even-delay.js'
import type { LimiterLike } from './limiter-like.js'
import type { IRateLimiterRedisOptions } from './options.js'
import { RateLimiterRes } from './rate-limiter-res.js'
import { type BlockRange, RateLimiterStoreAbstract } from './rate-limiter-store-abstract.js'
import { type BlockRule, type RedisCount, RedisCounters } from './redis-counters.js'

/** How added points are counted. */
interface Counting {
  readonly counted: (res: RateLimiterRes) => void
  readonly failed: (error: unknown) => void
}

/**
 * Counts in Redis, for all processes together, in the keys of rate-limiter-flexible. Refused calls count. While Redis fails, the
 * `insuranceLimiter` answers, or calls reject with `StoreError`, within 5 s.
 */
export class RateLimiterRedis extends RateLimiterStoreAbstract {
  readonly #counters: RedisCounters
  readonly #rejectsIfNotReady: boolean
  readonly #ownScript: string | undefined

  /** Throws `PolicyError` as `RateLimiterStoreAbstract` does, and for a `storeClient` that is no client. */
  constructor(opts: IRateLimiterRedisOptions) {
    super(opts)
    if (opts.storeClient === undefined)
      throw new PolicyError('storeClient is not set: expected a client, like new Redis()')
    this.#counters = new RedisCounters(opts.storeClient)
    this.#rejectsIfNotReady = Boolean(opts.rejectIfRedisNotReady)
    this.#ownScript = opts.customIncrTtlLuaScript || undefined
  }

  override consume(key: string | number, pointsToConsume = 1, options: CallOptions = {}): Promise<RateLimiterRes> {
    const rlKey = this.getKey(key)
    const blockedMs = this.getInMemoryBlockMsBeforeExpire(rlKey)
    if (blockedMs > 0) return Promise.reject(new RateLimiterRes(0, blockedMs))
    const range = this.blockDuration > 0 ? this.blockRange(Number(pointsToConsume)) : undefined
    return new Promise((resolve, reject) =>
      this.#add(rlKey, pointsToConsume, options, range, {
        counted: res => this.#decide(rlKey, res, resolve, reject),
        failed: error =>
          this.insured(error, limiter => limiter.consume(key, pointsToConsume, options)).then(resolve, reject),
      }),
    )
  }

  override penalty(key: string | number, points = 1, options: CallOptions = {}): Promise<RateLimiterRes> {
    return this.#change(key, points, options, limiter => limiter.penalty(key, points, options))
  }

  override reward(key: string | number, points = 1, options: CallOptions = {}): Promise<RateLimiterRes> {
    return this.#change(key, -points, options, limiter => limiter.reward(key, points, options))
  }

  override async get(key: string | number, options: CallOptions = {}): Promise<RateLimiterRes | null> {
    try {
      this.#insistOnReady()
      const count = await this.#counters.get(this.getKey(key))
      return count === undefined ? null : this.#res(count, 0)
    } catch (error) {
      return this.insured(error, limiter => limiter.get(key, options))
    }
  }

  override async set(
    key: string | number,
    points: number,
    secDuration: number,
    options: CallOptions = {},
  ): Promise<RateLimiterRes> {
    const seconds = secDuration >= 0 ? secDuration : this.duration
    try {
      return await this.#set(key, points, seconds)
    } catch (error) {
      return this.insured(error, limiter => limiter.set(key, points, seconds, options))
    }
  }

  override async block(key: string | number, secDuration: number, options: CallOptions = {}): Promise<RateLimiterRes> {
    try {
      return await this.#set(key, this.blockedPoints, secDuration)
    } catch (error) {
      return this.insured(error, limiter => limiter.block(key, secDuration, options))
    }
  }

  override async delete(key: string | number, options: CallOptions = {}): Promise<boolean> {
    const rlKey = this.getKey(key)
    try {
      const deleted = await this.#counters.delete(rlKey)
      this.blockedKeys.delete(rlKey)
      return deleted
    } catch (error) {
      return this.insured(error, limiter => limiter.delete(key, options))
    }
  }

  #decide(
    rlKey: string,
    counted: RateLimiterRes,
    resolve: (res: RateLimiterRes | Promise<RateLimiterRes>) => void,
    reject: (refusal: RateLimiterRes) => void,
  ): void {
    const { consumedPoints, msBeforeNext } = counted
    const allowed = consumedPoints <= this.points
    const from = this.inMemoryBlockOnConsumed
    const blocksInMemory = from > 0 && consumedPoints >= from
    if (blocksInMemory && this.inMemoryBlockDuration <= 0) {
      this.blockedKeys.block(rlKey, msBeforeNext)
      if (allowed) resolve(counted)
      else reject(counted)
    } else if (allowed) resolve(this.execEvenly ? evenly(this, counted) : counted)
    else if (blocksInMemory) {
      this.blockedKeys.block(rlKey, this.msInMemoryBlockDuration)
      reject(new RateLimiterRes(0, this.msInMemoryBlockDuration, consumedPoints, counted.isFirstInDuration))
    } else reject(counted)
  }

  #change(
    key: string | number,
    points: number,
    options: CallOptions,
    ask: (insurance: LimiterLike) => Promise<RateLimiterRes>,
  ): Promise<RateLimiterRes> {
    return new Promise((resolve, reject) =>
      this.#add(this.getKey(key), points, options, undefined, {
        counted: resolve,
        failed: error => this.insured(error, ask).then(resolve, reject),
      }),
    )
  }

  #add(
    rlKey: string,
    points: number,
    options: CallOptions,
    range: BlockRange | undefined,
    { counted, failed }: Counting,
  ): void {
    try {
      const text = wholePoints(points)
      this.#insistOnReady()
      const custom = options?.customDuration as number
      const lifetimeMs = (custom >= 0 ? custom : this.duration) * 1000
      const block = range && { ...range, ms: this.msBlockDuration }
      const changed = Number(points)
      if (this.#ownScript !== undefined && lifetimeMs >= 1000) {
        const args = [text, String(Math.floor(lifetimeMs / 1000)), String(this.points), String(this.duration)]
        this.#countBy(this.#ownScript, rlKey, args, block).then(count => counted(this.#res(count, changed)), failed)
      } else {
        this.#counters.add(rlKey, text, lifetimeMs, block, {
          resolve: (consumed, msLeft) => counted(this.#res({ consumed, msLeft }, changed)),
          reject: failed,
        })
      }
    } catch (error) {
      failed(error)
    }
  }

  async #countBy(
    script: string,
    rlKey: string,
    args: readonly string[],
    block: BlockRule | undefined,
  ): Promise<RedisCount> {
    const count = await this.#counters.addBy(script, rlKey, args)
    const { consumed } = count
    if (!block || consumed < block.low || consumed > block.high) return count
    await this.#counters.set(rlKey, String(consumed), block.ms)
    return { consumed, msLeft: block.ms }
  }

  async #set(key: string | number, points: number, seconds: number): Promise<RateLimiterRes> {
    const text = wholePoints(points)
    this.#insistOnReady()
    const ms = seconds * 1000
    await this.#counters.set(this.getKey(key), text, ms)
    return new RateLimiterRes(0, ms > 0 ? ms : -1, points)
  }

  #insistOnReady(): void {
    if (this.#rejectsIfNotReady && this.#counters.port.state() !== 'ready')
      throw new Error('Redis connection is not ready')
  }

  #res({ consumed, msLeft }: RedisCount, changed: number): RateLimiterRes {
    return new RateLimiterRes(Math.max(this.points - consumed, 0), msLeft, consumed, consumed === changed)
  }
}

/** The points in the format of Redis. Forms submit digits as text. */
function wholePoints(points: number | string): string {
  if (typeof points === 'string' ? /^[1-9]\d*$/.test(points) : Number.isInteger(points)) return String(points)
  throw new Error(
    typeof points === 'string'
      ? 'Consuming string different than integer values is not supported by this package'
      : 'Consuming decimal number of points is not supported by this package',
  )
}
