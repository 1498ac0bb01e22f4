import type { Context, Middleware, Next } from 'koa'
import { isPromise } from '../../http/sync-or-async.js'
import type { Duration } from '../../limiter/core/duration.js'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import { checkFunction } from '../../limiter/core/options.js'
import { type Count, type Counter, MemoryCounter, type MemoryEntry, RedisCounter } from './counters.js'

const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1000],
] as const

/** A time in words, rounded, as koa-ratelimit's default message has it: '2 minutes', '1 second', '300 ms'. */
function longTime(ms: number): string {
  for (const [name, unitMs] of UNITS) {
    if (ms >= unitMs) return `${Math.round(ms / unitMs)} ${name}${ms >= unitMs * 1.5 ? 's' : ''}`
  }
  return `${ms} ms`
}

/** The names of the three header fields. */
export interface HeaderNames {
  /** Requests left. Default 'X-RateLimit-Remaining'. */
  remaining?: string
  /**
   * In seconds since 1970, rounded up: of a refusal the moment when a request fits again, else the one when all do.
   * Default 'X-RateLimit-Reset'.
   */
  reset?: string
  /** Requests allowed. Default 'X-RateLimit-Limit'. */
  total?: string
}

/** The options of koa-ratelimit 6, with their names, defaults and meaning. Unknown options are ignored, as there. */
export interface LimiterOptions {
  /** The kind of store. Default 'redis'. */
  driver?: 'redis' | 'memory'
  /**
   * For 'redis' a client of ioredis, iovalkey, node-redis or GLIDE, which is never closed here. For 'memory' a Map;
   * default: one of its own.
   */
  db?: object
  /** In ms, more than 0; default one hour. */
  duration?: number
  /** Requests of an id allowed in `duration`: a whole number; 0 refuses all. Default 2500. */
  max?: number
  /** The sender's id; false: the request is not limited. Default: `ctx.ip`. */
  id?: (ctx: Context) => string | number | false
  /** The beginning of all keys, before a colon. Default 'limit'. */
  namespace?: string
  /** Default false. true: only a refusal has a header field, Retry-After. */
  disableHeader?: boolean
  /** The body of a refusal. Default: 'Rate limit exceeded, retry in 5 seconds.', with the actual time. */
  errorMessage?: string | object
  /** The status of a refusal. Default 429. */
  status?: number
  /** Default false. true: a refusal is thrown, for the service's error handling. */
  throw?: boolean
  /** Other names of the header fields, like `{ remaining: 'X-Left' }`. Default: those of koa-ratelimit. */
  headers?: HeaderNames
  /** true: the request is not limited, like `ctx => ctx.ip === '192.0.2.1'`. Default: all are. */
  whitelist?: (ctx: Context) => boolean | Promise<boolean>
  /** true: the request is answered 403. Default: none is. */
  blacklist?: (ctx: Context) => boolean | Promise<boolean>
  /** Default: none. Called for each refusal, after it has been written, like `ctx => log.warn(ctx.ip)`. */
  onLimited?: (ctx: Context) => unknown
  /** An addition. Default '50ms': when Redis has not answered by then, this process decides alone. */
  deadline?: Duration
}

/** The options with their defaults. */
type Configuration = LimiterOptions &
  Required<Pick<LimiterOptions, 'driver' | 'db' | 'duration' | 'max' | 'id' | 'namespace' | 'status'>> & {
    readonly names: Required<HeaderNames>
  }

const HOUR_MS = 3_600_000

/** Fills in the defaults. Throws `PolicyError` for values with which koa-ratelimit would fail at every request. */
function configurationOf(options: LimiterOptions): Configuration {
  const { driver = 'redis', id = ctx => ctx.ip, namespace = 'limit' } = options
  if (driver !== 'redis' && driver !== 'memory') {
    throw new PolicyError(`koa-ratelimit: driver ${shown(driver)}: expected "redis" or "memory"`)
  }
  const db = options.db ?? (driver === 'memory' ? new Map() : undefined)
  if (driver === 'memory' && !(db instanceof Map)) {
    throw new PolicyError(`koa-ratelimit: db ${shown(db)}: expected a Map with driver "memory", like new Map()`)
  }
  checkFunction(id, 'koa-ratelimit: id', 'ctx => ctx.ip')
  const duration = numberOf(options.duration ?? HOUR_MS)
  if (!(duration > 0 && duration <= Number.MAX_SAFE_INTEGER)) {
    throw new PolicyError(`koa-ratelimit: duration ${shown(options.duration)}: expected ms > 0, like 60000`)
  }
  const max = numberOf(options.max ?? 2500)
  if (!Number.isSafeInteger(max) || max < 0) {
    throw new PolicyError(`koa-ratelimit: max ${shown(options.max)}: expected a whole number ≥ 0, like 100`)
  }
  const {
    remaining = 'X-RateLimit-Remaining',
    reset = 'X-RateLimit-Reset',
    total = 'X-RateLimit-Limit',
  } = options.headers ?? {}
  const status = options.status || 429
  const names = { remaining, reset, total }
  return { ...options, driver, db: db as object, duration, max, id, namespace, status, names }
}

/** Services pass values from their environment: digits as text. */
function numberOf(value: unknown): number {
  return typeof value === 'number' || (typeof value === 'string' && value.trim() !== '') ? Number(value) : Number.NaN
}

/**
 * Middleware for Koa 2 and 3 with the interface and behaviour of koa-ratelimit 6. While Redis fails, each process
 * limits alone. Throws `PolicyError` for invalid options.
 */
export function ratelimit(options: LimiterOptions = {}): Middleware {
  const config = configurationOf(options)
  const { driver, db, namespace, max, duration, deadline } = config
  const counter: Counter =
    driver === 'memory'
      ? new MemoryCounter(db as Map<string, MemoryEntry>, namespace, max, duration)
      : new RedisCounter(db, namespace, max, duration, deadline)
  return async function ratelimit(ctx: Context, next: Next): Promise<void> {
    const id = config.id(ctx)
    const whitelisted = typeof config.whitelist === 'function' && (await config.whitelist(ctx))
    if (typeof config.blacklist === 'function' && (await config.blacklist(ctx))) ctx.throw(403, 'Forbidden')
    if (id === false || whitelisted) return next()
    if (!id) throw new Error(`koa-ratelimit: id ${String(id) || '""'}: expected who sends the request, or false`)
    const counted = counter.count(String(id))
    const count = isPromise(counted) ? await counted : counted
    const headers = config.disableHeader ? {} : headersOf(count, config)
    ctx.set(headers as Record<string, string>)
    if (count.allowed) return next()
    refuse(ctx, id, count, headers, config)
  }
}

/** @internal The types, under the names that programs written for koa-ratelimit use. */
export declare namespace ratelimit {
  /** The options of the middleware. */
  type MiddlewareOptions = LimiterOptions
  /** The names of header fields. */
  type HeaderNameOptions = HeaderNames
}

type Headers = Record<string, string | number>

function headersOf({ remaining, resetAt, total }: Count, { names }: Configuration): Headers {
  return { [names.remaining]: remaining, [names.reset]: Math.ceil(resetAt / 1000), [names.total]: total }
}

function refuse(ctx: Context, id: string | number, count: Count, headers: Headers, config: Configuration): void {
  const after = Math.max(1, Math.ceil(count.resetAfterMs / 1000))
  const message = config.errorMessage || `Rate limit exceeded, retry in ${longTime(count.resetAfterMs)}.`
  ctx.body = message
  ctx.set('Retry-After', String(after))
  ctx.state.rateLimit = { after, headers, id, message }
  ctx.status = config.status
  config.onLimited?.(ctx)
  if (!config.throw) return
  headers['Retry-After'] = after
  ctx.throw(ctx.status, ctx.body as string, { headers })
}
