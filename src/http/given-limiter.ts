import { PolicyError, shownOther } from '../limiter/core/errors.js'
import { RateLimiter } from '../limiter/rate-limiter.js'

/**
 * The option `limiter`, checked. Throws `PolicyError` for what is none, and for an option beside it, one of `settled`,
 * that a limiter has itself. `user` begins the message.
 */
export function givenLimiter(user: string, options: object, settled: readonly string[]): RateLimiter | undefined {
  const given = options as Readonly<Record<string, unknown>>
  const { limiter } = given
  if (limiter === undefined) return undefined
  if (!(limiter instanceof RateLimiter)) {
    throw new PolicyError(`${user}: limiter ${shownOther(limiter, 'RateLimiter')}: expected a RateLimiter`)
  }
  const other = settled.find(name => given[name] !== undefined)
  if (other === undefined) return limiter
  throw new PolicyError(`${user}: given both limiter and ${other}: expected ${other} where the limiter is made`)
}
