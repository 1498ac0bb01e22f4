import { LONGEST_TIMER_MS } from '../core/clock.js'
import { NotInitializedError, SpillwayError, StoreError, TimeoutError } from '../core/errors.js'
import type { Guarded } from '../limiter/guarded.js'
import { OUTAGE, type OutageAborter } from '../limiter/guarded-redis.js'
import type { RedisClient } from '../redis/client.js'
import { keyRoot } from '../redis/keys.js'
import { RateLine } from '../shared-rate/line.js'
import { RateKeys } from '../shared-rate/options.js'
import { SharedRateLimiter } from '../shared-rate/shared-rate-limiter.js'
import type { Patience } from '../waiting/wait.js'
import { longestAnswerMs, ProcessRate, type Rate, type RateLimit, tooLong, type Unit } from './rate.js'

/** Its keys expire after this time without use. */
const KEEP_ALIVE_MS = 60_000
const CLIENT = 'all'

interface RedisRateOptions {
  readonly client: RedisClient
  readonly partner: string
  readonly limit: RateLimit
  readonly guarded: Guarded
  readonly waits: OutageAborter
}

/**
 * A partner's rate over all processes: a shared rate whose interval is extended by the longest answer time. So a permit counts long enough while
 * the answer is awaited; after the answer, the permit is shortened. While Redis is gone this process counts alone, including what it took
 * over Redis.
 */
export class RedisRate implements Rate {
  readonly #options: RedisRateOptions
  readonly #answerMs: number
  readonly #shared: SharedRateLimiter
  readonly #line: RateLine
  readonly #alone: ProcessRate
  /** Moments of grants whose answers have come in this turn of the event loop, with how many they are. */
  #answered = new Map<number, number>()
  #ready: Promise<void> | undefined
  #waiting = 0

  constructor(options: RedisRateOptions) {
    const { client, partner, limit } = options
    const name = `outgoing:${partner}`
    const subject = `politeFetch ${partner}`
    this.#options = options
    this.#answerMs = longestAnswerMs(limit.intervalMs)
    this.#shared = new SharedRateLimiter(client, name, { clientId: CLIENT })
    const keys = new RateKeys(keyRoot('politeFetch', 'rate', name), CLIENT)
    this.#line = new RateLine(client, { subject, prefix: 'spillway', keys, now: () => '' })
    this.#alone = new ProcessRate(limit, partner)
  }

  get idle(): boolean {
    return this.#waiting === 0 && this.#alone.idle
  }

  async take(patience: Patience): Promise<Unit> {
    const { guarded, waits } = this.#options
    if (guarded.failing) return this.#alone.take(patience)
    const startedAt = performance.now()
    this.#waiting++
    try {
      const at = await waits.during(patience.signal, signal => this.#takeOverRedis(patience.timeoutMs, signal))
      return this.#unitOf(at)
    } catch (error) {
      if (error instanceof TimeoutError) throw error
      if (error !== OUTAGE && !(error instanceof StoreError)) throw error
      const timeoutMs = Math.max(0, startedAt + patience.timeoutMs - performance.now())
      return await this.#alone.take({ timeoutMs, signal: patience.signal })
    } finally {
      this.#waiting--
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#line.close(), this.#shared.close(), this.#alone.close()])
  }

  /** The moment of the grant, by the server's clock. */
  async #takeOverRedis(timeoutMs: number, signal: AbortSignal): Promise<number> {
    for (let attempt = 0; ; attempt++) {
      this.#ready ??= this.#setRate()
      try {
        await this.#ready
        return await this.#wait(timeoutMs, signal)
      } catch (error) {
        if (error instanceof TimeoutError) throw this.#byRealInterval(error)
        if (error instanceof SpillwayError) this.#ready = undefined
        // Its keys may have expired, or have been lost.
        if (!(error instanceof NotInitializedError) || attempt === 2) throw error
      }
    }
  }

  async #wait(timeoutMs: number, signal: AbortSignal): Promise<number> {
    signal.throwIfAborted()
    const { intervalMs } = this.#options.limit
    // Without waiting, takes what is free when Redis answers.
    if (timeoutMs === 0) return await this.#line.wait(1, { timeoutMs, signal })
    // The server computes turns with the longer interval, so it gets a longer timeout; the real one ends here.
    const stretch = (intervalMs + this.#answerMs) / intervalMs
    const ending = new AbortController()
    const end = () => ending.abort(signal.reason)
    const timedOut = () => ending.abort(new TimeoutError('', { retryAfterMs: intervalMs }))
    const timer = timeoutMs <= LONGEST_TIMER_MS ? setTimeout(timedOut, timeoutMs) : undefined
    signal.addEventListener('abort', end, { once: true })
    try {
      return await this.#line.wait(1, { timeoutMs: Math.ceil(timeoutMs * stretch), signal: ending.signal })
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
    }
  }

  async #setRate(): Promise<void> {
    const { rate, intervalMs } = this.#options.limit
    const interval = intervalMs + this.#answerMs
    const keepAlive = Math.max(KEEP_ALIVE_MS, interval)
    if (await this.#shared.trySetRate({ rate, interval, keepAlive })) return
    const config = await this.#shared.getConfig()
    if (config?.rate === rate && config.intervalMs === interval) return
    await this.#shared.setRate({ rate, interval, keepAlive }, { keepState: true })
  }

  #unitOf(at: number): Unit {
    const here = this.#alone.occupy()
    const takenAt = performance.now()
    return {
      answered: () => {
        here.answered()
        if (performance.now() < takenAt + this.#answerMs) this.#shorten(at)
      },
      unused: () => {
        here.unused()
        this.#line.shorten(`${at} 1`, 1).catch(() => {})
      },
    }
  }

  #shorten(at: number): void {
    if (this.#answered.size === 0) setImmediate(() => this.#sendAnswered())
    this.#answered.set(at, (this.#answered.get(at) ?? 0) + 1)
  }

  #sendAnswered(): void {
    const grants = [...this.#answered].map(([at, units]) => `${at} ${units}`).join(' ')
    this.#answered = new Map()
    // If that fails they count as if the answers had taken the longest time.
    this.#line.shorten(grants, this.#options.limit.intervalMs).catch(() => {})
  }

  /** The server's refusal tells the wait by the longer interval. */
  #byRealInterval({ retryAfterMs = 0 }: TimeoutError): TimeoutError {
    const { intervalMs } = this.#options.limit
    return tooLong(this.#options.partner, (retryAfterMs * intervalMs) / (intervalMs + this.#answerMs))
  }
}
