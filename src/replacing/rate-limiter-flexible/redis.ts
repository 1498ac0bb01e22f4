import { createHash } from 'node:crypto'
import { Deadline } from '../../limiter/core/clock.js'
import { PolicyError, StoreError } from '../../limiter/core/errors.js'
import type { ClientPort, RedisClient } from '../../redis/client.js'
import { portOf } from '../../redis/clients.js'
import { runScript, type Script } from '../../redis/script.js'
import { flexibleCount, flexibleGet, flexibleSet } from '../../redis/scripts.js'
import { TimelyScripts } from '../../redis/timely-scripts.js'
import { type KeyedAsker, KeyedScript } from '../keyed-script.js'
import {
  type BlockRange,
  type CallOptions,
  type IRateLimiterRedisOptions,
  type LimiterLike,
  RateLimiterStoreAbstract,
} from './rate-limiter-abstract.js'
import { evenly, RateLimiterRes } from './rate-limiter-res.js'

/** A call without an answer fails after this time, and the script does not act later. */
const PATIENCE_MS = 5000

/** A counter as Redis has it. */
interface RedisCount {
  readonly consumed: number
  /** -1: it lives without end. */
  readonly msLeft: number
}

/** When a count blocks its key, and for how long. */
interface BlockRule {
  readonly low: number
  readonly high: number
  readonly ms: number
}

/** Plain counters with a lifetime, in the form of rate-limiter-flexible. What fails rejects with `StoreError`. */
class RedisCounters {
  readonly port: ClientPort
  readonly #scripts: TimelyScripts
  readonly #counting: KeyedScript
  /** The rule of the last call, which is usually the same in the next one. */
  #rule = ''
  #points = ''
  #lifetimeMs = Number.NaN
  readonly #deadline = new Deadline(PATIENCE_MS)

  constructor(client: RedisClient) {
    this.port = portOf(client, 'RateLimiterRedis: storeClient')
    this.#scripts = TimelyScripts.of(this.port)
    this.#counting = KeyedScript.of(this.port, flexibleCount)
  }

  /** Passes the asker the count and its remaining ms, -1: without end. */
  add(key: string, points: string, lifetimeMs: number, block: BlockRule | undefined, asker: KeyedAsker): void {
    if (block === undefined && points === this.#points && lifetimeMs === this.#lifetimeMs) {
      this.#counting.ask(key, this.#rule, asker)
      return
    }
    this.#points = points
    this.#lifetimeMs = block === undefined ? lifetimeMs : Number.NaN
    this.#rule = `${points} ${whole(lifetimeMs)}`
    if (block !== undefined) this.#rule += ` ${whole(block.ms)} ${block.low} ${block.high}`
    this.#counting.ask(key, this.#rule, asker)
  }

  /** Runs the user's own script with the arguments of rate-limiter-flexible. */
  async addBy(source: string, key: string, args: readonly string[]): Promise<RedisCount> {
    const script: Script = { name: 'custom', sha1: createHash('sha1').update(source).digest('hex'), source }
    this.#counting.flush()
    const [consumed, msLeft] = (await this.#held(runScript(this.port, script, [key], args))) as unknown[]
    return { consumed: Number(consumed), msLeft: Number(msLeft) }
  }

  async get(key: string): Promise<RedisCount | undefined> {
    const [, points, msLeft] = await this.#run(flexibleGet, key, [], false)
    return points === null ? undefined : { consumed: Number.parseInt(String(points), 10), msLeft: Number(msLeft) }
  }

  async set(key: string, points: string, lifetimeMs: number): Promise<void> {
    await this.#run(flexibleSet, key, [points, whole(lifetimeMs)], true)
  }

  /** False if there was none. */
  async delete(key: string): Promise<boolean> {
    const [, deleted] = await this.#run(flexibleSet, key, ['', '0'], true)
    return Number(deleted) > 0
  }

  #run(script: Script, key: string, args: readonly string[], changes: boolean): Promise<unknown[]> {
    this.#counting.flush()
    const reply = this.#scripts.run({
      script,
      keys: [key],
      args: until => [...args, until],
      endsAt: changes ? performance.now() + PATIENCE_MS : Number.POSITIVE_INFINITY,
      server: this.port.serverOf(this.port.slotOf(key)),
      byServerClock: true,
    })
    return this.#held(reply) as Promise<unknown[]>
  }

  async #held(reply: Promise<unknown>): Promise<unknown> {
    try {
      return await this.#deadline.hold(reply)
    } catch (cause) {
      if (cause instanceof StoreError) throw cause
      throw new StoreError(`Redis failed: ${(cause as Error).message}`, { cause })
    }
  }
}

function whole(ms: number): string {
  return String(Math.max(0, Math.ceil(ms)))
}

/** How added points are counted. */
interface Counting {
  readonly counted: (res: RateLimiterRes) => void
  readonly failed: (error: unknown) => void
}

/**
 * Counts in Redis, for all processes together, in the keys of rate-limiter-flexible. Refused calls count. While Redis
 * fails, the `insuranceLimiter` answers, or calls reject with `StoreError`, within 5 s.
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
