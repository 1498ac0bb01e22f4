import type { ForeignNames } from '../limiter/core/options.js'
import { LIMITER_NEWCOMERS } from '../limiter/options.js'

/**
 * Options of express-rate-limit, express-slow-down, @fastify/rate-limit, koa-ratelimit, hono-rate-limiter,
 * @nestjs/throttler, rate-limiter-flexible, @upstash/ratelimit and others, and what to write here instead.
 */
export const NEWCOMERS: ForeignNames = [
  [
    'windowMs',
    'windowMs is the time of limit; or policy has both, like "100/1m"',
    'duration interval window timeWindow ttl',
  ],
  ['policy', 'that is an option of concurrencyLimit; policy is how many in a time, like "100/1m"', 'permits'],
  ['permits', 'permits is how many may be inside at once', 'max limit points concurrency maxConcurrent'],
  [
    'key',
    'key is a function that gives the text by which requests count together, like req => req.user?.id',
    'keyGenerator id identifier getTracker generateKey',
  ],
  ['client', 'client is the Redis client', 'redis db storeClient'],
  [
    'handler',
    'handler answers a refused request; an observer is told of every decision',
    'onLimitReached onLimited onExceeded onBanReach throw',
  ],
  [
    'settle',
    'settle says after the response what a request costs, like { cost: 0, settle: (req, res) => ' +
      '(res.statusCode === 401 ? 1 : 0) }',
    'skipSuccessfulRequests skipFailedRequests requestWasSuccessful',
  ],
  [
    'handler',
    "the decision is always stored as rateLimit: req.rateLimit, ctx.state.rateLimit in Koa, c.get('rateLimit') in Hono",
    'requestPropertyName',
  ],
  [
    'headers',
    "headers lists the forms of the header fields, like ['draft-8', 'legacy'], or [] for none",
    'standardHeaders legacyHeaders addHeaders addHeadersOnExceeding setHeaders disableHeader enableDraftSpec',
  ],
  ['message', 'message is the body of a refusal', 'errorMessage errorResponseBuilder'],
  ['statusCode', 'statusCode is the status of a refusal', 'status'],
  ['skip', 'skip is a function that says which requests are not limited', 'skipIf ignoreUserAgents'],
  ['allow', 'allow lists addresses that are not limited; skip is a function', 'whitelist allowList'],
  ['deny', 'deny lists addresses that are always refused', 'blacklist denyList'],
  [
    'block',
    "block refuses a key that is denied too often for longer, like { after: 10, for: '10m' }",
    'ban blockDuration continueExceeding exponentialBackoff',
  ],
  [
    'proxies',
    'proxies is how many proxies stand in front of the service, like 1, or a list of their addresses',
    'trustProxy trustProxies',
  ],
  ['slowDown', "slowDown is an object, like { after: 50, by: '100ms', max: '2s' }", 'delayMs delayAfter maxDelayMs'],
  [
    'headers',
    'there is nothing to switch off: a wrong option is an error, a wrong setting causes one warning',
    'validate',
  ],
  ...LIMITER_NEWCOMERS,
]
