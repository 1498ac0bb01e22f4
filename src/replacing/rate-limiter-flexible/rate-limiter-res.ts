import type { SyncOrAsync } from '../../http/sync-or-async.js'
import { LONGEST_TIMER_MS } from '../../limiter/core/clock.js'

/** The result of a limiter for a key. A refusal is thrown. */
export class RateLimiterRes {
  /** Points left in the duration that runs, ≥ 0. */
  readonly remainingPoints: number
  /** In how many ms the duration or the block ends; -1: never. */
  readonly msBeforeNext: number
  /** Points consumed in the duration that runs, also by refused calls. */
  readonly consumedPoints: number
  #isFirstInDuration = false

  constructor(remainingPoints = 0, msBeforeNext = 0, consumedPoints = 0, isFirstInDuration = false) {
    this.remainingPoints = remainingPoints
    this.msBeforeNext = msBeforeNext
    this.consumedPoints = consumedPoints
    this.isFirstInDuration = isFirstInDuration
  }

  /** True for the call that began the duration. What is set becomes true or false. */
  get isFirstInDuration(): boolean {
    return this.#isFirstInDuration
  }

  set isFirstInDuration(value: unknown) {
    this.#isFirstInDuration = Boolean(value)
  }

  /** The four numbers as JSON. */
  toString(): string {
    return JSON.stringify(this.toJSON())
  }

  /** A plain object of the four. */
  toJSON(): Pick<RateLimiterRes, 'remainingPoints' | 'msBeforeNext' | 'consumedPoints' | 'isFirstInDuration'> {
    const { remainingPoints, msBeforeNext, consumedPoints, isFirstInDuration } = this
    return { remainingPoints, msBeforeNext, consumedPoints, isFirstInDuration }
  }
}

/** True for a result of ours or of rate-limiter-flexible: the two may work together. */
export function isRes(value: unknown): value is RateLimiterRes {
  if (value instanceof RateLimiterRes) return true
  return !(value instanceof Error) && typeof (value as RateLimiterRes | undefined)?.msBeforeNext === 'number'
}

/** The options of a limiter that delays its answers. */
interface EvenLimiter {
  readonly points: number
  readonly execEvenly: boolean
  readonly execEvenlyMinDelayMs: number
}

/** At once or, with `execEvenly`, after this call's delay, with the values after that delay. */
export function evenly(limiter: EvenLimiter, res: RateLimiterRes): SyncOrAsync<RateLimiterRes> {
  if (!limiter.execEvenly || limiter.points <= 0 || res.msBeforeNext <= 0 || res.isFirstInDuration) {
    return res
  }
  const { remainingPoints, msBeforeNext, consumedPoints } = res
  const shortestMs = limiter.execEvenlyMinDelayMs
  let delayMs = Math.ceil(msBeforeNext / (remainingPoints + 2))
  if (delayMs < shortestMs) delayMs = consumedPoints * shortestMs
  const later = new RateLimiterRes(remainingPoints, Math.max(0, msBeforeNext - delayMs), consumedPoints, false)
  return new Promise(resolve => setTimeout(resolve, Math.min(delayMs, LONGEST_TIMER_MS), later))
}
