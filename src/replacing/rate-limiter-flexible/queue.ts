import { LONGEST_TIMER_MS } from '../../limiter/core/clock.js'
import { getOrMake } from '../../limiter/core/maps.js'
import type { RateLimiterAbstract, RateLimiterLike } from './rate-limiter-abstract.js'
import type { RateLimiterRes } from './rate-limiter-res.js'
import type { BurstyRateLimiter } from './wrappers.js'

/** A request that a queue cannot take, or that has expired in it. */
export class RateLimiterQueueError extends Error {
  /** 'CustomError', as in rate-limiter-flexible. */
  override readonly name: string = 'CustomError'
  /** What went wrong. */
  override readonly message: string
  /** More about it; absent if there is no more. */
  readonly extra!: string

  constructor(message = '', extra?: string) {
    super(message)
    this.message = message
    if (extra) this.extra = extra
  }
}

interface Request {
  readonly tokens: number
  readonly expiresUnixAt: number
  readonly resolve: (remaining: number) => void
  readonly reject: (error: unknown) => void
}

/** How often to ask a limiter whose duration never ends, because points may be given back. */
const ENDLESS_MS = 100

/** The waiting requests of one key, in order. While any wait, newcomers join the line. */
class KeyQueue {
  readonly #limiter: RateLimiterAbstract | BurstyRateLimiter
  readonly #key: string | number
  readonly #maxSize: number
  readonly #onIdle: () => void
  #waiting: Request[] = []
  /** Requests that ask the limiter without having waited. */
  #asking = 0
  /** Whether the first one in line is asking. */
  #turn = false
  #timer: ReturnType<typeof setTimeout> | undefined

  /** `onIdle` is called when no request waits or asks. */
  constructor(
    limiter: RateLimiterAbstract | BurstyRateLimiter,
    key: string | number,
    maxSize: number,
    onIdle: () => void,
  ) {
    this.#limiter = limiter
    this.#key = key
    this.#maxSize = maxSize
    this.#onIdle = onIdle
  }

  removeTokens(tokens: number, expiresUnixAt: number): Promise<number> {
    return new Promise((resolve, reject) => {
      const request = { tokens, expiresUnixAt, resolve, reject }
      const { points } = this.#limiter
      if (tokens > points) {
        reject(new RateLimiterQueueError(`Requested tokens ${tokens} exceeds maximum ${points} tokens per interval`))
        this.#mayBeIdle()
      } else if (this.#waiting.length > 0) this.#enqueue(request)
      else this.#ask(request)
    })
  }

  async #ask(request: Request): Promise<void> {
    this.#asking++
    try {
      request.resolve((await this.#limiter.consume(this.#key, request.tokens)).remainingPoints)
    } catch (refusal) {
      if (refusal instanceof Error) request.reject(refusal)
      else {
        this.#enqueue(request)
        this.#wait(refusal as RateLimiterRes)
      }
    }
    this.#asking--
    this.#mayBeIdle()
  }

  #enqueue(request: Request): void {
    if (this.#waiting.length < this.#maxSize) this.#waiting.push(request)
    else request.reject(new RateLimiterQueueError(`Number of requests reached it's maximum ${this.#maxSize}`))
  }

  #wait({ msBeforeNext }: RateLimiterRes): void {
    if (this.#waiting.length === 0 || this.#turn) return
    const waitMs = msBeforeNext < 0 ? ENDLESS_MS : Math.min(Math.max(1, msBeforeNext), LONGEST_TIMER_MS)
    this.#timer ??= setTimeout(() => this.#serve(), waitMs)
  }

  async #serve(): Promise<void> {
    this.#timer = undefined
    this.#turn = true
    let refusal: RateLimiterRes | undefined
    while (refusal === undefined && this.#dropExpired()) {
      const [first] = this.#waiting
      try {
        const { remainingPoints } = await this.#limiter.consume(this.#key, first.tokens)
        this.#waiting.shift()
        first.resolve(remainingPoints)
      } catch (error) {
        if (error instanceof Error) {
          this.#waiting.shift()
          first.reject(error)
        } else refusal = error as RateLimiterRes
      }
    }
    this.#turn = false
    if (refusal !== undefined) this.#wait(refusal)
    this.#mayBeIdle()
  }

  /** False if no request is left. */
  #dropExpired(): boolean {
    const nowSeconds = Math.floor(Date.now() / 1000)
    const isOver = ({ expiresUnixAt }: Request) => expiresUnixAt > 0 && nowSeconds >= expiresUnixAt
    if (this.#waiting.some(isOver)) {
      for (const request of this.#waiting) {
        if (!isOver(request)) continue
        request.reject(new RateLimiterQueueError('The request to remove tokens expired before it could be fulfilled'))
      }
      this.#waiting = this.#waiting.filter(request => !isOver(request))
    }
    return this.#waiting.length > 0
  }

  #mayBeIdle(): void {
    if (this.#waiting.length === 0 && this.#asking === 0 && !this.#turn) this.#onIdle()
  }
}

/** Options of `RateLimiterQueue`. */
export interface IRateLimiterQueueOpts {
  /** How many requests of a key wait at most. Default 4294967295. */
  maxQueueSize?: number
}

const DEFAULT_KEY = 'limiter'
const DEFAULT_MAX_SIZE = 4_294_967_295

/** Requests that wait their turn instead of being refused, first come, first served, in this process. */
export class RateLimiterQueue {
  readonly #limiter: RateLimiterAbstract | BurstyRateLimiter
  readonly #maxSize: number
  /** The queues with waiting requests. */
  readonly #queues = new Map<string, KeyQueue>()

  constructor(limiterFlexible: RateLimiterLike | BurstyRateLimiter, opts: IRateLimiterQueueOpts = {}) {
    // A wrapper does not expose its points; then no request is too large.
    this.#limiter = limiterFlexible as RateLimiterAbstract
    this.#maxSize = opts.maxQueueSize ?? DEFAULT_MAX_SIZE
  }

  /** Points left to a key; all of them if the store cannot be read. */
  async getTokensRemaining(key: string | number = DEFAULT_KEY): Promise<number> {
    try {
      const res = await this.#limiter.get(key)
      return res === null ? this.#limiter.points : res.remainingPoints
    } catch {
      return this.#limiter.points
    }
  }

  /**
   * Consumes tokens, waiting for them if need be, and gives what remains. `expiresUnixAt`, in seconds since 1970: a
   * request that still waits at its next turn after that is refused; 0: never. Rejects with `RateLimiterQueueError` for
   * that, for more tokens than the limiter has points, and when too many wait.
   */
  removeTokens(tokens: number, key: string | number = DEFAULT_KEY, expiresUnixAt = 0): Promise<number> {
    const name = String(key)
    const queue = getOrMake(
      this.#queues,
      name,
      () => new KeyQueue(this.#limiter, key, this.#maxSize, () => this.#queues.delete(name)),
    )
    return queue.removeTokens(tokens, expiresUnixAt)
  }
}
