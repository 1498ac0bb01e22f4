import { PolicyError, shown } from '../core/errors.js'
import type { LimiterLike } from './limiter-like.js'
import { LimiterMethods } from './limiter-methods.js'
import type { IRateLimiterOptions } from './options.js'

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
        `duration must be set and must be a finite, non-negative number: given ${shown(value)}, expected seconds like 60`,
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
