/** A package that a project may use now. */
export interface ReplacedPackage {
  /** What takes the place of each of its modules by the change of an import line. */
  readonly dropIns: Readonly<Record<string, string>>
  /** The names of it that the drop-in does not have: a file that uses one of them is left as it is. */
  readonly lacks?: readonly string[]
  /** The drop-in stands for this version. */
  readonly version?: string
  /** Our own API for it. */
  readonly own: string
  /** Of the documents, with programs before and after. */
  readonly page: string
}

const RATE_LIMITER_FLEXIBLE_LACKS =
  'RateLimiterRedisNonAtomic RateLimiterMongo RateLimiterMySQL RateLimiterPostgres RateLimiterMemcache ' +
  'RateLimiterClusterMaster RateLimiterClusterMasterPM2 RateLimiterCluster RLWrapperTimeouts RateLimiterDynamo ' +
  'RateLimiterPrisma RateLimiterValkey RateLimiterValkeyGlide RateLimiterSQLite RateLimiterEtcd RateLimiterDrizzle ' +
  'RateLimiterDrizzleNonAtomic RateLimiterEtcdNonAtomic RateLimiterEtcdTransactionFailedError'

export const REPLACED: Readonly<Record<string, ReplacedPackage>> = {
  'express-rate-limit': {
    dropIns: { 'express-rate-limit': 'spillway/express-rate-limit' },
    version: '8',
    own: "rateLimit({ policy: '100/1m' }) of spillway/express",
    page: 'from-express-rate-limit.md',
  },
  'rate-limiter-flexible': {
    dropIns: { 'rate-limiter-flexible': 'spillway/rate-limiter-flexible' },
    lacks: RATE_LIMITER_FLEXIBLE_LACKS.split(' '),
    version: '11',
    own: "new RateLimiter({ policy: '100/1m' }) of spillway; stores of Redis, spillway/postgres and spillway/sqlite",
    page: 'from-rate-limiter-flexible.md',
  },
  'koa-ratelimit': {
    dropIns: { 'koa-ratelimit': 'spillway/koa-ratelimit' },
    version: '6',
    own: "rateLimit({ policy: '100/1m' }) of spillway/koa",
    page: 'from-koa-ratelimit.md',
  },
  bottleneck: {
    dropIns: {
      bottleneck: 'spillway/bottleneck',
      'bottleneck/es5': 'spillway/bottleneck',
      'bottleneck/light': 'spillway/bottleneck/light',
    },
    version: '2',
    own: 'SharedRateLimiter, Semaphore and DelayQueue of spillway',
    page: 'from-bottleneck.md',
  },
  '@fastify/rate-limit': {
    dropIns: {},
    own: "register(rateLimit, { policy: '100/1m' }) of spillway/fastify",
    page: 'from-fastify-rate-limit.md',
  },
}

/** The package of a module specifier: 'bottleneck' of 'bottleneck/light'. Undefined for all others. */
export function replacedBy(specifier: string): string | undefined {
  return Object.keys(REPLACED).find(name => specifier === name || specifier.startsWith(`${name}/`))
}
