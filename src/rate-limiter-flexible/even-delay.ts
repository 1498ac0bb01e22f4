import { LONGEST_TIMER_MS } from '../core/clock.js'
import type { RateLimiterAbstract } from './rate-limiter-abstract.js'
import { RateLimiterRes } from './rate-limiter-res.js'

/** Resolves at once or, with `execEvenly`, after this call's delay, with the values after that delay. */
export function evenly(limiter: RateLimiterAbstract, res: RateLimiterRes): Promise<RateLimiterRes> {
  if (!limiter.execEvenly || limiter.points <= 0 || res.msBeforeNext <= 0 || res.isFirstInDuration) {
    return Promise.resolve(res)
  }
  const { remainingPoints, msBeforeNext, consumedPoints } = res
  const shortestMs = limiter.execEvenlyMinDelayMs
  let delayMs = Math.ceil(msBeforeNext / (remainingPoints + 2))
  if (delayMs < shortestMs) delayMs = consumedPoints * shortestMs
  const later = new RateLimiterRes(remainingPoints, Math.max(0, msBeforeNext - delayMs), consumedPoints, false)
  return new Promise(resolve => setTimeout(resolve, Math.min(delayMs, LONGEST_TIMER_MS), later))
}
