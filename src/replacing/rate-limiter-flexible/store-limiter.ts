import { after, isPromise, type SyncOrAsync } from '../../http/sync-or-async.js'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import { BoundedMap } from '../../limiter/core/maps.js'
import type { Store } from '../../limiter/store.js'
import { type Count, Points } from './points.js'
import {
  type CallOptions,
  type IRateLimiterOptions,
  type IRateLimiterStoreOptions,
  isLimiter,
  type LimiterLike,
  RateLimiterAbstract,
} from './rate-limiter-abstract.js'
import { evenly, isRes, RateLimiterRes } from './rate-limiter-res.js'

/** An answer that a caller gets at most, without and with an insurance limiter. */
const PATIENCE_MS = 5000
const INSURED_PATIENCE_MS = 50
/** A process remembers so many keys that it refuses without asking the store. */
const MOST_REMEMBERED = 100_000

/** A limiter that may fail, with a replacement for that case. */
export class RateLimiterInsuredAbstract extends RateLimiterAbstract {
  #insurance: LimiterLike | undefined

  /** Throws `PolicyError` as `RateLimiterAbstract` does, and for an `insuranceLimiter` that is no limiter. */
  constructor(opts: IRateLimiterOptions) {
    super(opts)
    this.insuranceLimiter = opts.insuranceLimiter
  }

  /**
   * Default: none. Decides when the store fails, like `new RateLimiterMemory({ points: 5, duration: 1 })`. It takes
   * over this limiter's `blockDuration` and `execEvenly`.
   */
  get insuranceLimiter(): LimiterLike | undefined {
    return this.#insurance
  }

  /** Decides while the store fails. */
  set insuranceLimiter(value: LimiterLike | undefined) {
    if (value !== undefined && !isLimiter(value)) {
      throw new PolicyError(
        'insuranceLimiter must be instance of RateLimiterAbstract or RateLimiterCompatibleAbstract: given ' +
          `${shown(value)}, expected one like new RateLimiterMemory({ points: 5, duration: 1 })`,
      )
    }
    this.#insurance = value
    if (value === undefined) return
    value.blockDuration = this.blockDuration
    value.execEvenly = this.execEvenly
  }

  /** Asks the insurance limiter after a failure of the store. A refusal is not a failure. */
  protected async insured<T>(error: unknown, ask: (limiter: LimiterLike) => Promise<T>): Promise<T> {
    if (this.#insurance === undefined || isRes(error)) throw error
    return ask(this.#insurance)
  }
}

/** A limiter over a store, and the keys that it refuses without asking the store. */
export class RateLimiterStoreAbstract extends RateLimiterInsuredAbstract {
  /** `blockDuration` begins with so many consumed points; 0: when more than `points` are consumed. */
  blockOnConsumed: number
  /** A key that has consumed so many points is refused without asking the store; 0: never. */
  readonly inMemoryBlockOnConsumed: number
  /** In whole seconds: for how long. 0: until its duration ends. */
  readonly inMemoryBlockDuration: number
  readonly #counts: Points | undefined
  readonly #refusedUntil = new BoundedMap<string, number>(MOST_REMEMBERED)

  /** Throws `PolicyError` as `RateLimiterInsuredAbstract` does, and for thresholds below `points`. */
  constructor(opts: IRateLimiterStoreOptions | IRateLimiterOptions, store?: Store) {
    super(opts)
    const options: Partial<IRateLimiterStoreOptions> = opts
    this.blockOnConsumed = this.#threshold('blockOnConsumed', options.blockOnConsumed)
    this.inMemoryBlockOnConsumed = this.#threshold('inMemoryBlockOnConsumed', options.inMemoryBlockOnConsumed)
    this.inMemoryBlockDuration = Math.trunc(options.inMemoryBlockDuration || 0)
    if (this.inMemoryBlockDuration > 0 && this.inMemoryBlockOnConsumed === 0) {
      throw new PolicyError(
        `inMemoryBlockOnConsumed option must be set up: given inMemoryBlockDuration ${this.inMemoryBlockDuration} ` +
          'alone, expected both',
      )
    }
    const isInsured = this.insuranceLimiter !== undefined
    const meanwhile = isInsured ? 'the insuranceLimiter answers' : 'calls reject'
    const deadlineMs = isInsured ? INSURED_PATIENCE_MS : PATIENCE_MS
    this.#counts = store && new Points(store, this.msDuration, deadlineMs, meanwhile)
  }

  /** `inMemoryBlockDuration` in ms. */
  get msInMemoryBlockDuration(): number {
    return this.inMemoryBlockDuration * 1000
  }

  /**
   * How many ms a key is still refused without asking the store; 0: it is not. Takes the key as `getKey` returns it.
   */
  getInMemoryBlockMsBeforeExpire(rlKey: string): number {
    return Math.max(0, (this.#refusedUntil.get(rlKey) ?? 0) - Date.now())
  }

  /** Deletes all keys that are refused without asking the store. */
  deleteInMemoryBlockedAll(): void {
    this.#refusedUntil.clear()
  }

  /** Consumes points of a key. Rejects with a result where there are too few; they count all the same. */
  override consume(key: string | number, pointsToConsume = 1, options: CallOptions = {}): Promise<RateLimiterRes> {
    return this.#insured(
      () => {
        const rlKey = this.getKey(key)
        const refusedMs = this.getInMemoryBlockMsBeforeExpire(rlKey)
        if (refusedMs > 0) throw new RateLimiterRes(0, refusedMs)
        const points = Number(pointsToConsume)
        return after(this.#count(rlKey, pointsToConsume, options), count => this.#judge(rlKey, count, points))
      },
      limiter => limiter.consume(key, pointsToConsume, options),
    )
  }

  /** Consumes points without refusing. */
  override penalty(key: string | number, points = 1, options: CallOptions = {}): Promise<RateLimiterRes> {
    return this.#insured(
      () => after(this.#count(this.getKey(key), points, options), count => this.#res(count, points)),
      limiter => limiter.penalty(key, points, options),
    )
  }

  /** Gives points back, at most those that are consumed. */
  override reward(key: string | number, points = 1, options: CallOptions = {}): Promise<RateLimiterRes> {
    return this.#insured(
      () => after(this.#count(this.getKey(key), -points, options), count => this.#res(count, -points)),
      limiter => limiter.reward(key, points, options),
    )
  }

  /** What a key has consumed; null if nothing is known of it. */
  override get(key: string | number, options: CallOptions = {}): Promise<RateLimiterRes | null> {
    return this.#insured<RateLimiterRes | null>(
      async () => {
        const rlKey = this.getKey(key)
        const count = await this.counts.look(rlKey)
        return count.msLeft === 0 ? null : this.#res({ ...count, consumed: count.consumed - this.banked(rlKey) }, 0)
      },
      limiter => limiter.get(key, options),
    )
  }

  /** Sets the points of a key. From where a key is blocked it is a block, for so many seconds; 0: without end. */
  override set(
    key: string | number,
    points: number,
    secDuration: number,
    options: CallOptions = {},
  ): Promise<RateLimiterRes> {
    const seconds = secDuration >= 0 ? secDuration : this.duration
    return this.#insured(
      async () => {
        const rlKey = this.getKey(key)
        const whole = Math.max(0, this.wholePoints(points))
        if (whole >= Math.floor(this.#blockedPoints)) await this.#block(rlKey, seconds * 1000, whole)
        else {
          await this.#forget(rlKey)
          await this.#count(rlKey, whole, {})
        }
        return new RateLimiterRes(0, seconds > 0 ? seconds * 1000 : -1, points)
      },
      limiter => limiter.set(key, points, seconds, options),
    )
  }

  /** Refuses a key for so many seconds; 0: without end. */
  override block(key: string | number, secDuration: number, options: CallOptions = {}): Promise<RateLimiterRes> {
    return this.#insured(
      async () => {
        await this.#block(this.getKey(key), secDuration * 1000, 0)
        return new RateLimiterRes(0, secDuration > 0 ? secDuration * 1000 : -1, this.#blockedPoints)
      },
      limiter => limiter.block(key, secDuration, options),
    )
  }

  /** Forgets a key; false if nothing was known of it. */
  override delete(key: string | number, options: CallOptions = {}): Promise<boolean> {
    return this.#insured(
      async () => {
        const rlKey = this.getKey(key)
        const known = await this.counts.look(rlKey)
        await this.#forget(rlKey)
        this.#refusedUntil.delete(rlKey)
        return known.msLeft > 0
      },
      limiter => limiter.delete(key, options),
    )
  }

  /** The points of a call as a whole number; throws where that is asked for. */
  protected wholePoints(points: number): number {
    return Math.trunc(points)
  }

  /** In which a call counts a new key. */
  protected durationMs(options: CallOptions | undefined): number {
    const custom = options?.customDuration as number
    return (custom >= 0 ? custom : this.duration) * 1000
  }

  /** Throws while the store should not be asked. */
  protected insistOnStore(): void {}

  /** Called for each count and block of a key, which end in `msLeft`; it may be Infinity. */
  protected noted(_rlKey: string, _msLeft: number): void {}

  /** Called when the count of a key is forgotten. */
  protected forgotten(_rlKey: string): void {}

  /** How many points were given to a key beyond what it had consumed. */
  protected banked(_rlKey: string): number {
    return 0
  }

  /** Counts points whatever the key has; below 0 they are given back. */
  #count(rlKey: string, given: number, options: CallOptions | undefined): SyncOrAsync<Count> {
    const points = this.wholePoints(given)
    const durationMs = this.durationMs(options)
    const act = points < 0 ? 'take' : 'add'
    return after(this.counts[act](rlKey, Math.abs(points), durationMs), count => {
      const msLeft = count.msLeft > 0 ? count.msLeft : durationMs || Number.POSITIVE_INFINITY
      this.noted(rlKey, msLeft)
      return { consumed: count.consumed - this.banked(rlKey), msLeft, isBlocked: count.isBlocked }
    })
  }

  /** What follows from a count: a refusal, which is thrown, a block, a delay. */
  #judge(rlKey: string, count: Count, points: number): SyncOrAsync<RateLimiterRes> {
    const res = this.#res(count, points)
    const { consumedPoints, msBeforeNext } = res
    const remembers = this.inMemoryBlockOnConsumed > 0 && consumedPoints >= this.inMemoryBlockOnConsumed
    const replaces = remembers && this.inMemoryBlockDuration <= 0
    if (replaces) this.#remember(rlKey, msBeforeNext)
    if (consumedPoints <= this.points) return evenly(this, res)
    const blocks = this.blockDuration > 0 && !replaces && !count.isBlocked && this.#crosses(consumedPoints, points)
    return after(blocks ? this.#block(rlKey, this.msBlockDuration, consumedPoints) : undefined, () => {
      const remembersLonger = remembers && !replaces
      if (remembersLonger) this.#remember(rlKey, this.msInMemoryBlockDuration)
      const blockedMs = blocks ? this.msBlockDuration : msBeforeNext
      const ms = remembersLonger ? this.msInMemoryBlockDuration : blockedMs
      throw new RateLimiterRes(0, ms, consumedPoints, res.isFirstInDuration as boolean)
    })
  }

  #forget(rlKey: string): Promise<void> {
    this.forgotten(rlKey)
    return this.counts.forget(rlKey)
  }

  #block(rlKey: string, ms: number, consumed: number): Promise<void> {
    this.forgotten(rlKey)
    this.noted(rlKey, ms || Number.POSITIVE_INFINITY)
    return this.counts.block(rlKey, ms, consumed)
  }

  /** Whether it is this call that brings the count to where a key is blocked. */
  #crosses(consumed: number, points: number): boolean {
    const from = Math.floor(this.#blockedPoints)
    return consumed >= from && consumed - points < from
  }

  /** The points of a blocked key. Rounded down: the whole points from which on a key is blocked. */
  get #blockedPoints(): number {
    return this.blockOnConsumed > this.points && this.blockOnConsumed > 0 ? this.blockOnConsumed : this.points + 1
  }

  #remember(rlKey: string, ms: number): void {
    if (ms > 0) this.#refusedUntil.set(rlKey, Date.now() + ms)
  }

  /** `counted`: the points of the call. */
  #res({ consumed, msLeft, isBlocked }: Count, counted: number): RateLimiterRes {
    const points = isBlocked ? Math.max(consumed, this.#blockedPoints) : consumed
    const ms = msLeft === Number.POSITIVE_INFINITY ? -1 : msLeft
    const isFirst = !isBlocked && consumed === Number(counted)
    return new RateLimiterRes(Math.max(this.points - points, 0), ms, points, isFirst)
  }

  /** The points of all keys. */
  protected get counts(): Points {
    if (this.#counts === undefined) throw new Error(`${this.constructor.name}: it has no store`)
    this.insistOnStore()
    return this.#counts
  }

  #insured<T>(act: () => SyncOrAsync<T>, instead: (limiter: LimiterLike) => Promise<T>): Promise<T> {
    const failed = (error: unknown) => this.insured(error, instead)
    try {
      const result = act()
      return Promise.resolve(isPromise(result) ? result.then(undefined, failed) : result)
    } catch (error) {
      return failed(error)
    }
  }

  #threshold(name: string, value: number | undefined): number {
    const threshold = Math.trunc(value || 0)
    if (threshold > 0 && this.points > threshold) {
      throw new PolicyError(
        `${name} option must be greater or equal "points" option: given ${shown(value)}, expected at least ` +
          `${this.points}`,
      )
    }
    return threshold
  }
}
