import { formatDuration, parseOption } from '../../limiter/core/duration.js'
import { PolicyError } from '../../limiter/core/errors.js'
import type { LimitOptions } from '../../limiter/core/limit.js'
import { checkOptions, type OptionNames } from '../../limiter/core/options.js'
import { CLIENT_OPTIONS } from '../address/client.js'
import { checkIsCalled } from '../misuse.js'
import { NEWCOMERS } from '../newcomers.js'
import { isPromise } from '../sync-or-async.js'
import type { HttpOptions } from './options.js'

/** The options that other packages call differently, or give in parts. */
type Spelling = 'limit' | 'max' | 'windowMs' | 'algorithm' | 'keyGenerator'

/** The options of a middleware, each by its one name. */
export type PlainOptions<Args extends readonly unknown[]> = Omit<HttpOptions<Args>, Spelling>

const OPTIONS: OptionNames<HttpOptions<never>> = {
  policy: true,
  limit: true,
  max: true,
  windowMs: true,
  algorithm: true,
  key: true,
  keyGenerator: true,
  cost: true,
  settle: true,
  block: true,
  slowDown: true,
  defer: true,
  store: true,
  name: true,
  skip: true,
  statusCode: true,
  message: true,
  handler: true,
  headers: true,
  deadline: true,
  onStoreFailure: true,
  localShare: true,
  denyCache: true,
  shadow: true,
  observer: true,
  limiter: true,
  ...CLIENT_OPTIONS,
}

/** The parts of a policy. */
const PARTS = ['limit', 'max', 'windowMs', 'algorithm'] as const
const WINDOW_MS = 60_000
const QUOTA = 5

/**
 * Translates `limit`, `max`, `windowMs`, `algorithm` and `keyGenerator` into `policy` and `key`: what is behind this
 * does not know them. `all`: options for all routes, from which a route with one of the parts of a policy inherits the
 * others. Checks the names of all options: `PolicyError`.
 */
export function plainOptions<Args extends readonly unknown[]>(
  given: HttpOptions<Args>,
  all: HttpOptions<Args> = {},
): PlainOptions<Args> {
  checkIsCalled('rateLimit', given)
  checkOptions('rateLimit', given, OPTIONS, '{ policy: "100/1m" }', NEWCOMERS)
  if ('policy' in given && given.policy === undefined) {
    throw new PolicyError(
      'rateLimit: policy undefined: expected a policy, like "100/1m"; without the option policy the limit is 5 per minute',
    )
  }
  const { limit, max, windowMs, algorithm, keyGenerator, ...plain } = given
  one('limit', limit, 'max', max)
  one('key', given.key, 'keyGenerator', keyGenerator)
  const key = given.key ?? keyGenerator
  if (key !== undefined) plain.key = key
  const part = PARTS.find(name => given[name] !== undefined)
  if (part === undefined) return plain
  for (const whole of ['policy', 'limiter'] as const) if (given[whole] !== undefined) throw both(whole, part)
  plain.policy = policyOf({ ...partsOf(all), ...partsOf(given) })
  return plain
}

/** The parts of a policy that are given. */
function partsOf<Args extends readonly unknown[]>({ limit, max, windowMs, algorithm }: HttpOptions<Args>) {
  const quota = limit === undefined ? max : limit
  return {
    ...(quota !== undefined && { quota }),
    ...(windowMs !== undefined && { windowMs }),
    ...(algorithm !== undefined && { algorithm }),
  }
}

function policyOf<Args extends readonly unknown[]>(
  parts: ReturnType<typeof partsOf<Args>>,
): PlainOptions<Args>['policy'] {
  const { quota = QUOTA, windowMs: window = WINDOW_MS, algorithm } = parts
  const ms = parseOption(window, 'rateLimit: windowMs')
  if (typeof quota !== 'function') return { quota, window, algorithm }
  // Counts belong to the name: a name without the quota keeps them when the quota changes.
  const name = `per-${formatDuration(ms)}`
  const limitOf = (quota: number): LimitOptions => ({ quota, window, algorithm, name })
  return (...request) => {
    const now = quota(...request)
    return isPromise(now) ? Promise.resolve(now).then(limitOf) : limitOf(now)
  }
}

/** Throws `PolicyError` if an option is given under two names. */
function one(name: string, value: unknown, other: string, otherValue: unknown): void {
  if (value === undefined || otherValue === undefined) return
  throw new PolicyError(`rateLimit: given both ${name} and ${other}, which are one option: expected ${name} alone`)
}

function both(whole: 'policy' | 'limiter', part: string): PolicyError {
  return new PolicyError(
    whole === 'policy'
      ? `rateLimit: given both policy and ${part}, expected one of them: policy has all three, like "100/1m fixed-window"`
      : `rateLimit: given both limiter and ${part}: expected ${part} where the limiter is made, like new ` +
          'RateLimiter({ policy: "100/1m" })',
  )
}
