import { PolicyError, shown } from '../../limiter/core/errors.js'
import {
  type CallOptions,
  isLimiter,
  type RateLimiterAbstract,
  RateLimiterCompatibleAbstract,
  type RateLimiterLike,
} from './rate-limiter-abstract.js'
import { isRes, RateLimiterRes } from './rate-limiter-res.js'

/** A limiter, and a second one that is tried when the first one refuses. */
export class BurstyRateLimiter {
  readonly #limiter: RateLimiterLike
  readonly #burst: RateLimiterLike

  constructor(rateLimiter: RateLimiterLike, burstLimiter: RateLimiterLike) {
    this.#limiter = rateLimiter
    this.#burst = burstLimiter
  }

  /** The points of the first limiter. */
  get points(): number {
    return (this.#limiter as RateLimiterAbstract).points
  }

  /**
   * Rejects with `RateLimiterRes` if both refuse. The result is the first limiter's, with the smaller `msBeforeNext` of
   * the two.
   */
  async consume(key: string | number, pointsToConsume = 1, options: CallOptions = {}): Promise<RateLimiterRes> {
    try {
      return await this.#limiter.consume(key, pointsToConsume, options)
    } catch (refusal) {
      if (!isRes(refusal)) throw refusal
      return this.#burst.consume(key, pointsToConsume, options).then(
        res => combined(refusal, res),
        error => {
          throw isRes(error) ? combined(refusal, error) : error
        },
      )
    }
  }

  /** The first limiter's result for a key, with the smaller `msBeforeNext`; null if it has none. */
  async get(key: string | number): Promise<RateLimiterRes | null> {
    const [res, burst] = await Promise.all([this.#limiter.get(key), this.#burst.get(key)])
    return res === null ? null : combined(res, burst)
  }
}

function combined(res: RateLimiterRes, burst: RateLimiterRes | null): RateLimiterRes {
  const { remainingPoints, msBeforeNext, consumedPoints, isFirstInDuration } = res
  const msLeft = Math.min(msBeforeNext, burst?.msBeforeNext ?? 0)
  return new RateLimiterRes(remainingPoints, msLeft, consumedPoints, isFirstInDuration)
}

/** Several limiters that must all allow a call; each counts it in any case. */
export class RateLimiterUnion {
  readonly #limiters: readonly RateLimiterLike[]

  /** Throws `PolicyError` without limiters, or for an invalid one. */
  constructor(...limiters: RateLimiterLike[]) {
    if (limiters.length < 1)
      throw new PolicyError('RateLimiterUnion: at least one limiter have to be passed: given none')
    const wrong = limiters.find(limiter => !isLimiter(limiter))
    if (wrong !== undefined || limiters.includes(undefined as never)) {
      throw new PolicyError(
        'RateLimiterUnion: all limiters have to be instance of RateLimiterAbstract or ' +
          `RateLimiterCompatibleAbstract: given ${shown(wrong)}`,
      )
    }
    this.#limiters = limiters
  }

  /**
   * The result of each limiter, by its `keyPrefix`. Rejects with the results or errors of the limiters that refuse or
   * fail, by their `keyPrefix`.
   */
  async consume(key: string | number, points = 1): Promise<Record<string, RateLimiterRes>> {
    const outcomes = await Promise.allSettled(this.#limiters.map(limiter => limiter.consume(key, points)))
    const allowed: Record<string, RateLimiterRes> = {}
    const refused: Record<string, unknown> = {}
    outcomes.forEach((outcome, i) => {
      const { keyPrefix } = this.#limiters[i]
      if (outcome.status === 'fulfilled') allowed[keyPrefix] = outcome.value
      else refused[keyPrefix] = outcome.reason
    })
    if (outcomes.some(({ status }) => status === 'rejected')) throw refused
    return allowed
  }
}

/** Whether a key is listed; written as a method so that a function of a narrower key fits. */
type IsListed = { of(key: unknown): boolean }['of']

/** Options of `RLWrapperBlackAndWhite`. */
export interface IRLWrapperBlackAndWhiteOptions {
  /** Asked for all other keys, like `new RateLimiterMemory({ points: 5, duration: 1 })`. */
  limiter: RateLimiterLike
  /** Keys that are refused, like `['203.0.113.9']`. Default: none. */
  blackList?: string[] | number[]
  /** Keys that are never refused, also those of the black list, like `['192.0.2.1']`. Default: none. */
  whiteList?: string[] | number[]
  /** Default: none. Whether a key is refused whatever it has consumed, like `key => banned.has(key)`. */
  isBlackListed?(key: unknown): boolean
  /** Default: none. Whether a key is let in whatever it has consumed, like `key => staff.has(key)`. */
  isWhiteListed?(key: unknown): boolean
  /** Default false. true: listed keys are counted too. */
  runActionAnyway?: boolean
}

/** A limiter with lists of keys that it always refuses, or always allows. */
export class RLWrapperBlackAndWhite extends RateLimiterCompatibleAbstract {
  /** The limiter that is wrapped. */
  limiter: RateLimiterLike
  #blackList: string[] | number[] = []
  #whiteList: string[] | number[] = []
  /** Default: none. Whether a key is refused whatever it has consumed, like `key => banned.has(key)`. */
  isBlackListed: IsListed
  /** Default: none. Whether a key is let in whatever it has consumed, like `key => staff.has(key)`. */
  isWhiteListed: IsListed
  /** Whether the limiter is called for listed keys, too. */
  runActionAnyway: boolean

  /** Throws `PolicyError` without a limiter, and for invalid functions. */
  constructor(opts: IRLWrapperBlackAndWhiteOptions) {
    super()
    const { limiter, blackList, whiteList, isBlackListed, isWhiteListed, runActionAnyway = false } = opts ?? {}
    if (limiter === undefined) throw new PolicyError('limiter is not set: expected one, like new RateLimiterMemory(…)')
    this.limiter = limiter
    this.blackList = blackList as string[]
    this.whiteList = whiteList as string[]
    this.isBlackListed = functionOf('isBlackListed', isBlackListed)
    this.isWhiteListed = functionOf('isWhiteListed', isWhiteListed)
    this.runActionAnyway = runActionAnyway
  }

  /** The beginning of all keys. */
  override get keyPrefix(): string {
    return this.limiter.keyPrefix
  }

  /** For how many seconds a key is blocked that consumes too much; 0: it is not. */
  override get blockDuration(): number {
    return this.limiter.blockDuration
  }

  override set blockDuration(seconds: number) {
    this.limiter.blockDuration = seconds
  }

  /** Whether actions are delayed so that they are spread over the duration. */
  override get execEvenly(): boolean {
    return this.limiter.execEvenly
  }

  override set execEvenly(evenly: boolean) {
    this.limiter.execEvenly = evenly
  }

  /** Keys that are refused, like `['203.0.113.9']`. Default: none. */
  get blackList(): string[] | number[] {
    return this.#blackList
  }

  /** Keys that are refused, like `['203.0.113.9']`. Default: none. */
  set blackList(keys: string[] | number[]) {
    this.#blackList = Array.isArray(keys) ? keys : []
  }

  /** Keys that are never refused. */
  get whiteList(): string[] | number[] {
    return this.#whiteList
  }

  /** Keys that are let in. */
  set whiteList(keys: string[] | number[]) {
    this.#whiteList = Array.isArray(keys) ? keys : []
  }

  /** Whether the list or the function names the key. */
  isBlackListedSomewhere(key: string | number): boolean {
    return has(this.#blackList, key) || this.isBlackListed(key)
  }

  /** Whether the list or the function names the key. */
  isWhiteListedSomewhere(key: string | number): boolean {
    return has(this.#whiteList, key) || this.isWhiteListed(key)
  }

  /** Consumes points of a key. Rejects with a result where there are too few. */
  override consume(key: string | number, pointsToConsume = 1, options: CallOptions = {}): Promise<RateLimiterRes> {
    return this.#act(key, limiter => limiter.consume(key, pointsToConsume, options), true)
  }

  /** Takes points of a key away, also below 0. */
  override penalty(key: string | number, points = 1, options: CallOptions = {}): Promise<RateLimiterRes> {
    return this.#act(key, limiter => limiter.penalty(key, points, options))
  }

  /** Gives points of a key back. */
  override reward(key: string | number, points = 1, options: CallOptions = {}): Promise<RateLimiterRes> {
    return this.#act(key, limiter => limiter.reward(key, points, options))
  }

  /** The state of a key; null if there is none. */
  override get(key: string | number, options: CallOptions = {}): Promise<RateLimiterRes | null> {
    if (this.runActionAnyway) return this.limiter.get(key, options)
    return this.#act(key, limiter => limiter.get(key, options))
  }

  /** Sets how many points of a key are consumed. */
  override set(
    key: string | number,
    points: number,
    secDuration: number,
    options: CallOptions = {},
  ): Promise<RateLimiterRes> {
    return this.#act(key, limiter => limiter.set(key, points, secDuration, options))
  }

  /** Blocks a key for so many seconds. */
  override block(key: string | number, secDuration: number, options: CallOptions = {}): Promise<RateLimiterRes> {
    return this.#act(key, limiter => limiter.block(key, secDuration, options))
  }

  /** Deletes a key. False if there was none. */
  override delete(key: string | number, options: CallOptions = {}): Promise<boolean> {
    return this.limiter.delete(key, options)
  }

  #act<Res extends RateLimiterRes | null>(
    key: string | number,
    action: (limiter: RateLimiterLike) => Promise<Res>,
    refuses = false,
  ): Promise<Res | RateLimiterRes> {
    const isWhite = this.isWhiteListedSomewhere(key)
    if (!isWhite && !this.isBlackListedSomewhere(key)) return action(this.limiter)
    if (this.runActionAnyway) action(this.limiter).catch(() => {})
    const most = Number.MAX_SAFE_INTEGER
    if (isWhite) return Promise.resolve(new RateLimiterRes(most, 0, 0, false))
    const black = new RateLimiterRes(0, most, 0, false)
    return refuses ? Promise.reject(black) : Promise.resolve(black)
  }
}

function has(keys: readonly (string | number)[], key: string | number): boolean {
  return keys.includes(key)
}

function functionOf(name: string, given: IsListed | undefined): IsListed {
  if (given === undefined) return () => false
  if (typeof given === 'function') return given
  throw new PolicyError(`${name} must be function: given ${shown(given)}, expected one like key => key === "admin"`)
}
