import { PolicyError } from '../core/errors.js'
import type { CallOptions } from './call-options.js'
import { evenly } from './even-delay.js'
import type { IRateLimiterRedisOptions } from './options.js'
import { RateLimiterStoreAbstract } from './rate-limiter-store-abstract.js'
import { type RedisCount, RedisCounters } from './redis-counters.js'
import { RateLimiterRes } from './res.js'

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
    return this.#consume(this.getKey(key), pointsToConsume, options).catch(error =>
      this.insured(error, limiter => limiter.consume(key, pointsToConsume, options)),
    )
  }

  override penalty(key: string | number, points = 1, options: CallOptions = {}): Promise<RateLimiterRes> {
    return this.#change(this.getKey(key), points, options).catch(error =>
      this.insured(error, limiter => limiter.penalty(key, points, options)),
    )
  }

  override reward(key: string | number, points = 1, options: CallOptions = {}): Promise<RateLimiterRes> {
    return this.#change(this.getKey(key), -points, options).catch(error =>
      this.insured(error, limiter => limiter.reward(key, points, options)),
    )
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

  async #consume(rlKey: string, points: number, options: CallOptions): Promise<RateLimiterRes> {
    const blockedMs = this.getInMemoryBlockMsBeforeExpire(rlKey)
    if (blockedMs > 0) throw new RateLimiterRes(0, blockedMs)
    const range = this.blockDuration > 0 ? this.blockRange(Number(points)) : undefined
    const counted = await this.#add(rlKey, points, options, range)
    const { consumedPoints, msBeforeNext } = counted
    const from = this.inMemoryBlockOnConsumed
    const blocksInMemory = from > 0 && consumedPoints >= from
    if (blocksInMemory && this.inMemoryBlockDuration <= 0) {
      this.blockedKeys.block(rlKey, msBeforeNext)
      if (consumedPoints > this.points) throw counted
      return counted
    }
    if (consumedPoints <= this.points) return this.execEvenly ? evenly(this, counted) : counted
    if (!blocksInMemory) throw counted
    this.blockedKeys.block(rlKey, this.msInMemoryBlockDuration)
    throw new RateLimiterRes(0, this.msInMemoryBlockDuration, consumedPoints, counted.isFirstInDuration)
  }

  async #change(rlKey: string, points: number, options: CallOptions): Promise<RateLimiterRes> {
    return this.#add(rlKey, points, options)
  }

  async #add(
    rlKey: string,
    points: number,
    options: CallOptions,
    range?: { low: number; high: number },
  ): Promise<RateLimiterRes> {
    const text = wholePoints(points)
    this.#insistOnReady()
    const custom = options?.customDuration as number
    const lifetimeMs = (custom >= 0 ? custom : this.duration) * 1000
    const block = range && { ...range, ms: this.msBlockDuration }
    if (this.#ownScript === undefined || lifetimeMs < 1000) {
      return this.#res(await this.#counters.add(rlKey, text, lifetimeMs, block), Number(points))
    }
    const seconds = String(Math.floor(lifetimeMs / 1000))
    const args = [text, seconds, String(this.points), String(this.duration)]
    const count = await this.#counters.addBy(this.#ownScript, rlKey, args)
    const { consumed } = count
    if (!block || consumed < block.low || consumed > block.high) return this.#res(count, Number(points))
    await this.#counters.set(rlKey, String(consumed), block.ms)
    return this.#res({ consumed, msLeft: block.ms }, Number(points))
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

/** The points as Redis adds them. Text of digits comes from forms. */
function wholePoints(points: number | string): string {
  if (typeof points === 'string' ? /^[1-9]\d*$/.test(points) : Number.isInteger(points)) return String(points)
  throw new Error(
    typeof points === 'string'
      ? 'Consuming string different than integer values is not supported by this package'
      : 'Consuming decimal number of points is not supported by this package',
  )
}
