import { PolicyError } from '../limiter/core/errors.js'
import { maxCostOf } from '../limiter/core/limit.js'
import { optionsOf, type RateLimiter } from '../limiter/rate-limiter.js'

/**
 * Throws `PolicyError` for a constant cost that a limit can never admit. A quota of 0 refuses everything on purpose.
 * `user` begins the message; `what` is what has the cost, like 'request'. `spared`: limits that not every one is
 * charged to.
 */
export function checkFits(
  user: string,
  what: string,
  cost: unknown,
  limiter: RateLimiter,
  spared?: ReadonlyMap<string, unknown>,
): void {
  // A function may give another policy next time.
  if (typeof cost !== 'number' || typeof optionsOf(limiter).policy === 'function') return
  const never = limiter.policy.find(limit => limit.quota > 0 && cost > maxCostOf(limit) && !spared?.has(limit.name))
  if (never === undefined) return
  throw new PolicyError(
    `${user}: cost ${cost}: the limit "${never.name}" never admits more than ${maxCostOf(never)} at once, so every ` +
      `${what} would be refused: expected a smaller cost, or a larger quota or burst`,
  )
}
