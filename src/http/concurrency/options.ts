import { type Duration, parseDurationOrZero, parseOption } from '../../limiter/core/duration.js'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import { parsePolicy } from '../../limiter/core/limit.js'
import { type Observer, parseObserver } from '../../limiter/core/observer.js'
import { checkFlag, checkFunction, checkInteger, checkOptions, type OptionNames } from '../../limiter/core/options.js'
import { isLikeClient } from '../../limiter/options.js'
import { knownCounts } from '../../limiter/port.js'
import type { Store } from '../../limiter/store.js'
import type { RedisClient } from '../../redis/client.js'
import { guardRedis } from '../../redis/guarded-redis.js'
import { redisPlaceOf } from '../../redis/redis-place.js'
import { leaseMsOf } from '../../waiting/semaphore/commands.js'
import { CLIENT_OPTIONS, type ClientOptions, type ClientSettings, parseClientOptions } from '../address/client.js'
import type { GivenKey } from '../call-option.js'
import { checkIsCalled } from '../misuse.js'
import { NEWCOMERS } from '../newcomers.js'
import { bodyOf } from '../refusal.js'
import type { SyncOrAsync } from '../sync-or-async.js'
import { type AdaptivePermits, adapt, type PermitsByDuration } from './permits.js'
import { type Places, ProcessPlaces } from './process-places.js'
import { SharedPlaces } from './shared-places.js'

/** Options of `concurrencyLimit`. */
export interface ConcurrencyOptions<Args extends readonly unknown[]> extends ClientOptions {
  /**
   * How many requests of a key may be inside at once. Integer ≥ 0; 0 refuses all. Or `adaptivePermits()` of
   * spillway/adaptive, which finds the number for this process from the duration of its requests: not beside `client`
   * or a store in Redis.
   */
  permits: number | AdaptivePermits
  /**
   * The key by which requests are counted together; undefined: this request is not limited. 'address': the client's
   * address, as `rateLimit` counts it (`proxies`, `addressHeader`, `ipv6Subnet`). Default: one count for the whole
   * service; a refusal is then 503, because it is no client's fault.
   */
  key?: 'address' | ((...request: Args) => SyncOrAsync<GivenKey>)
  /** A Redis client, like `new Redis(url)`: counts over all processes. Default: this process only. */
  client?: RedisClient
  /**
   * Instead of `client`: a `RedisStore`, whose client and prefix are used, or a `MemoryStore`, which means this process
   * only.
   */
  store?: Store
  /** The beginning of the keys in Redis, for `client`. Default 'spillway'. */
  prefix?: string
  /**
   * Default 'default'. Limits with the same name, Redis and prefix count together; it also names the policy in the
   * header.
   */
  name?: string
  /** How long a request waits for a place. Default 0: it is refused at once. */
  wait?: Duration | 0
  /** The most waiting requests of a key in this process; more are refused. Default 100. */
  queue?: number
  /**
   * Default '30s', at most ten years: how long a place stays taken, at most, after its process has died. A live process
   * keeps its places.
   */
  lease?: Duration
  /**
   * Default 50 ms: if Redis does not answer by then, this process counts alone, with the same number of permits, for
   * this request.
   */
  deadline?: Duration
  /** true: this request is not limited, like `req => req.path === '/health'`. Default: all are. */
  skip?: (...request: Args) => SyncOrAsync<boolean>
  /** Default 429 with `key`, 503 without. */
  statusCode?: number
  /**
   * The body of a refusal: a text as it is, anything else as JSON. A function is called for each refusal, after status
   * and header fields are set. Default, also for undefined: problem details if the client's Accept header names JSON,
   * else one line of text.
   */
  message?: string | object | ((...request: Args) => unknown)
  /**
   * Writes the refusal instead of the default body: ends the response (Express), or sets `ctx.body` (Koa). Called after
   * status and header fields are set. Its errors go to the framework's error handling.
   */
  handler?: (...request: Args) => unknown
  /**
   * Default '30s': how long a place stays taken after the client has gone while the handler still works, or after a
   * client that is still there took the last byte of a response that waits for it. It is free earlier when the handler
   * ends the response, or, without a client, when a stream that was piped into it is detached.
   */
  abandonAfter?: Duration
  /**
   * Default: none. Receives requests that wait, enter and are refused (`waited`, `held`, `level`), and failures and
   * recoveries of Redis. Without an observer, an outage causes process warnings (SPILLWAY_STORE).
   */
  observer?: Observer
  /** Default true: `RateLimit-Policy` reports the limit. */
  headers?: boolean
}

/** The options, checked, with their defaults. */
export interface ConcurrencySettings<Args extends readonly unknown[]> {
  readonly permits: number | PermitsByDuration
  readonly key: ConcurrencyOptions<Args>['key']
  readonly skip: ConcurrencyOptions<Args>['skip']
  readonly client: ClientSettings
  readonly places: Places
  readonly name: string
  readonly waitMs: number
  readonly queue: number
  readonly statusCode: number
  readonly message: unknown
  readonly handler: ConcurrencyOptions<Args>['handler']
  readonly abandonAfterMs: number
  readonly headers: boolean
  readonly observer: Observer | undefined
}

const OPTIONS: OptionNames<ConcurrencyOptions<never>> = {
  permits: true,
  key: true,
  client: true,
  store: true,
  prefix: true,
  name: true,
  wait: true,
  queue: true,
  lease: true,
  deadline: true,
  skip: true,
  statusCode: true,
  message: true,
  handler: true,
  abandonAfter: true,
  observer: true,
  headers: true,
  ...CLIENT_OPTIONS,
}

/** Checks the options. Throws `PolicyError`. */
export function parseConcurrencyOptions<Args extends readonly unknown[]>(
  options: ConcurrencyOptions<Args>,
): ConcurrencySettings<Args> {
  checkIsCalled('concurrencyLimit', options)
  checkOptions('concurrencyLimit', options, OPTIONS, '{ permits: 5 }', NEWCOMERS)
  const { key, skip, name = 'default', wait = 0, queue = 100, message, handler, headers = true } = options
  const { statusCode = key === undefined ? 503 : 429 } = options
  const permits = permitsOf(options.permits)
  checkInteger(queue, 'concurrencyLimit: queue', 100, 0)
  if (key !== undefined && key !== 'address' && typeof key !== 'function') {
    throw wrong(
      `key ${shown(key)}: expected "address", a function, like { key: req => req.user?.id }, or none for the ` +
        'whole service',
    )
  }
  if (skip !== undefined) checkFunction(skip, 'concurrencyLimit: skip', '{ skip: req => req.user?.isAdmin }')
  checkInteger(statusCode, 'concurrencyLimit: statusCode', 429, 200, 599)
  checkFlag(headers, 'concurrencyLimit: headers')
  if (message !== undefined && typeof message !== 'function') bodyOf(message)
  if (handler !== undefined) {
    checkFunction(handler, 'concurrencyLimit: handler', '{ handler: (req, res) => res.render("busy") }')
  }
  // Names in header fields follow the same rules as names of limits.
  parsePolicy({ quota: 1, window: '1s', name })
  const observer = parseObserver(options.observer, 'concurrencyLimit')
  const waitMs = parseDurationOrZero(wait, 'concurrencyLimit: wait')
  const abandonAfterMs = parseOption(options.abandonAfter ?? '30s', 'concurrencyLimit: abandonAfter')
  return {
    permits,
    key,
    skip,
    client: parseClientOptions('concurrencyLimit', options),
    places: placesOf(options, name, observer),
    name,
    waitMs,
    queue,
    statusCode,
    message,
    handler,
    abandonAfterMs,
    headers,
    observer,
  }
}

function permitsOf(permits: number | AdaptivePermits): number | PermitsByDuration {
  if (adapt(permits) || (typeof permits === 'number' && Number.isSafeInteger(permits) && permits >= 0)) return permits
  throw wrong(`permits ${shown(permits)}: expected an integer ≥ 0, like 5, or adaptivePermits()`)
}

const OVER_REDIS = {
  name: 'concurrencyLimit',
  meanwhile: 'each process lets in as many requests as there are permits (concurrencyLimit)',
}

function placesOf(options: ConcurrencyOptions<never>, name: string, observer: Observer | undefined): Places {
  const { permits, client, store, prefix, lease, deadline } = options
  const leaseMs = leaseMsOf(lease, 'concurrencyLimit: lease')
  const deadlineMs = deadline === undefined ? 50 : parseOption(deadline, 'concurrencyLimit: deadline')
  const overRedis = (from: RedisClient, keysBegin: string) => {
    if (typeof permits !== 'number') {
      throw wrong(
        'adaptivePermits() adapts in each process, and a shared count has one number of permits: expected ' +
          '{ permits: adaptivePermits() } without client and store, or a number beside them, ' +
          'like { permits: 50, client }',
      )
    }
    const guarded = guardRedis(from, deadlineMs, observer, OVER_REDIS)
    return new SharedPlaces({ client: from, prefix: keysBegin, name, permits, leaseMs, guarded })
  }
  if (client !== undefined && store !== undefined) throw wrong('given both client and store, expected one of them')
  const redis = redisPlaceOf(store)
  if (redis !== undefined) return overRedis(redis.client, prefix ?? redis.prefix)
  if (isLikeClient(store))
    throw wrong('store is a Redis client: expected { client }, or a store over it, like new RedisStore(client)')
  if (store !== undefined && !knownCounts(store)?.isLocal) {
    throw wrong(`store ${shown(store)}: expected a RedisStore, or a MemoryStore for this process alone`)
  }
  if (client === undefined) return new ProcessPlaces(permits)
  return overRedis(client, prefix ?? 'spillway')
}

function wrong(text: string): PolicyError {
  return new PolicyError(`concurrencyLimit: ${text}`)
}
