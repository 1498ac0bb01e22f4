import { type Limit, mostOf } from '../../core/limit.js'

/** The limit of seven digits to the base 64. */
const TOO_LARGE = 2 ** 42
const LOW_DIGITS = 2 ** 24
const ZERO = 48

/**
 * The compact form of a lone decision, with one text as its argument and one number as its answer: see lua/steps/open_one.lua and
 * lua/steps/answer_lone.lua.
 */
export class LoneRequest {
  readonly #most: number
  #high = -1
  #highDigits = ''

  private constructor(
    limit: Limit,
    readonly digits: string,
  ) {
    this.#most = mostOf(limit)
  }

  /** `numbers`: the limit as script arguments. Undefined if one of them is too large. */
  static of(limit: Limit, numbers: readonly number[]): LoneRequest | undefined {
    if (numbers.some(number => number >= TOO_LARGE)) return undefined
    return new LoneRequest(limit, numbers.map(number => high(number) + low(number)).join(''))
  }

  /** `untilMs`: the last moment at which it may be decided, ms. */
  argument(untilMs: number): string {
    const until = untilMs < TOO_LARGE ? untilMs : TOO_LARGE - 1
    const number = Math.floor(until / LOW_DIGITS)
    if (number !== this.#high) {
      this.#high = number
      this.#highDigits = high(until)
    }
    return this.#highDigits + low(until) + this.digits
  }

  /** The answer as a list. */
  answer(reply: unknown, untilMs: number): unknown {
    if (typeof reply === 'object') return reply
    const number = Number(reply)
    if (!Number.isSafeInteger(number) || number < 0) return reply
    const earlyMs = number % 2 ** 14
    const rest = (number - earlyMs) / 2 ** 14
    const reset = rest % 2 ** 23
    const spent = (rest - reset) / 2 ** 23
    // A proxy may reply with anything, so the reply is checked.
    return spent > 0 && spent <= this.#most ? [untilMs - earlyMs, this.#most - spent, reset] : reply
  }
}

function high(number: number): string {
  const n = Math.floor(number / LOW_DIGITS)
  return String.fromCharCode(ZERO + (n >> 12), ZERO + ((n >> 6) & 63), ZERO + (n & 63))
}

function low(number: number): string {
  const n = number % LOW_DIGITS
  return String.fromCharCode(ZERO + (n >> 18), ZERO + ((n >> 12) & 63), ZERO + ((n >> 6) & 63), ZERO + (n & 63))
}
