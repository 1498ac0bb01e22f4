import { algorithmOf } from '../../limiter/algorithms/registry.js'
import type { BlockRule, Strikes } from '../../limiter/block-rule.js'
import { Calendar } from '../../limiter/core/calendar.js'
import type { Verdict } from '../../limiter/core/decision.js'
import { StoreError } from '../../limiter/core/errors.js'
import { hasBurst, type Limit, maxCostOf } from '../../limiter/core/limit.js'
import type { Standing } from '../../limiter/port.js'
import type { ChargeReceipt } from '../../limiter/store.js'

/**
 * Limits as script arguments: their number, then four arguments each. `nowMs`: the server's clock, as far as it is
 * known.
 */
export function limitArguments(limits: readonly Limit[], nowMs: () => number): string[] {
  const args = [String(limits.length)]
  for (const limit of limits) args.push(scriptAlgorithmOf(limit), ...limitNumbers(limit, nowMs))
  return args
}

/** The name of an algorithm in lua/. */
export function scriptAlgorithmOf({ algorithm }: Limit): string {
  return algorithm.replace('-', '_')
}

/**
 * A limit for a script that knows its algorithm: quota, window, and the burst of a bucket, the start of a calendar
 * window, or nothing.
 */
export function limitNumbers({ algorithm, quota, windowMs, burst, calendar }: Limit, nowMs: () => number): string[] {
  if (calendar === undefined) return [String(quota), String(windowMs), hasBurst(algorithm) ? String(burst) : '']
  const { startAt, endAt } = Calendar.ofRule(calendar).spanAt(nowMs())
  return [quota, endAt - startAt, startAt].map(String)
}

/** What a decision spent under each limit, as script arguments: four each. */
export function receiptArguments(receipts: readonly ChargeReceipt[]): string[] {
  return receipts.flatMap(({ chargedAt, cost, remaining, resetAfterMs }) => [
    String(chargedAt),
    String(cost),
    String(remaining),
    String(resetAfterMs),
  ])
}

/** When denials block a key, as script arguments, after the age of the oldest denial. */
export function strikeArguments(
  { after, windowMs, forMs, factor, maxMs, forgetMs }: BlockRule,
  ageMs: number,
): string[] {
  return [Math.floor(ageMs), after, windowMs, forMs, factor, maxMs, forgetMs].map(String)
}

/**
 * Reads what the change `strike` returns. Clients can be configured to return numbers as text or bigint. Throws
 * `StoreError`.
 */
export function strikesOf(answer: unknown): Strikes {
  const [, blockedMs, isNew, left, resetAfterMs] = Array.isArray(answer) ? answer.slice(0, 5).map(Number) : []
  if (!(blockedMs >= 0 && resetAfterMs >= 0)) throw new StoreError(`Redis could not count denials: ${String(answer)}`)
  return { blockedMs, isNew: isNew === 1, left, resetAfterMs }
}

/**
 * Reads what the change `charge` returns. A proxy may reply with anything: undefined if it is not a number for each.
 */
export function standingOf(answer: unknown, limits: number): Standing | undefined {
  const [at, ...numbers] = Array.isArray(answer) ? answer.map(Number) : []
  if (numbers.length !== 2 * limits || ![at, ...numbers].every(Number.isFinite)) return undefined
  return {
    at,
    limits: Array.from({ length: limits }, (_, i) => ({ remaining: numbers[2 * i], resetAfterMs: numbers[2 * i + 1] })),
  }
}

/**
 * The list that an answer stands for: one request that is admitted is answered with one number, see
 * lua/limiter/consume_row.lua.
 */
export function listOf(reply: unknown, untilMs: number, limit: Limit): unknown {
  if (typeof reply === 'object') return reply
  const number = Number(reply)
  if (!Number.isSafeInteger(number) || number < 0) return reply
  const earlyMs = number % 2 ** 14
  const rest = (number - earlyMs) / 2 ** 14
  const reset = rest % 2 ** 23
  const [spent, most] = [(rest - reset) / 2 ** 23, maxCostOf(limit)]
  // A proxy may reply with anything, so the reply is checked.
  return spent > 0 && spent <= most ? [untilMs - earlyMs, most - spent, reset] : reply
}

/** Reads the list of numbers that the consume script returns, one decision after another. */
export class VerdictReader {
  #at: number

  constructor(
    readonly reply: readonly unknown[],
    first: number,
    readonly limits: readonly Limit[],
  ) {
    this.#at = first
  }

  /** The verdicts of the next decision; a proxy may reply with anything else than numbers. */
  next(): readonly Verdict[] | StoreError {
    const verdicts = new Array<Verdict>(this.limits.length)
    for (let i = 0; i < verdicts.length; i++) {
      const verdict = this.#verdict(this.limits[i])
      if (Number.isNaN(verdict.remaining) || Number.isNaN(verdict.resetAfterMs)) {
        return new StoreError('Redis answered a decision with something else than numbers')
      }
      verdicts[i] = verdict
    }
    return verdicts
  }

  #verdict(limit: Limit): Verdict {
    const first = this.#number()
    const allowed = first >= 0
    const resetAfterMs = this.#number()
    if (!allowed) {
      const remaining = -1 - first
      const retryAfterMs = this.#number()
      if (retryAfterMs >= 0) return { limit, allowed, remaining, retryAfterMs, resetAfterMs, delayMs: 0 }
      const denial = { limit, allowed, remaining, retryAfterMs: Number.POSITIVE_INFINITY, resetAfterMs, delayMs: 0 }
      return retryAfterMs === -1 ? denial : { ...denial, retryAfterMs: -2 - retryAfterMs, blocked: true }
    }
    const delayMs = algorithmOf(limit.algorithm).shapes ? this.#number() : 0
    return { limit, allowed, remaining: first, retryAfterMs: 0, resetAfterMs, delayMs }
  }

  // Clients can be configured to return numbers as text or bigint.
  #number(): number {
    const value = this.reply[this.#at++]
    return typeof value === 'number' ? value : Number(value ?? Number.NaN)
  }
}
