import type { Context, Middleware, Next } from 'koa'
import { isPromise } from '../http/sync-or-async.js'
import type { Count, Counter } from './count.js'
import { longTime } from './long-time.js'
import { MemoryCounter, type MemoryEntry } from './memory-counter.js'
import { type Configuration, configurationOf, type HeaderNames, type LimiterOptions } from './options.js'
import { RedisCounter } from './redis-counter.js'

/**
 * Middleware for Koa 2 and 3 with the interface and behaviour of koa-ratelimit 6. While Redis fails, requests fail with a `StoreError`, within
 * five seconds. Throws `PolicyError` for invalid options.
 */
export function ratelimit(options: LimiterOptions = {}): Middleware {
  const config = configurationOf(options)
  const { driver, db, namespace, max, duration } = config
  const counter: Counter =
    driver === 'memory'
      ? new MemoryCounter(db as Map<string, MemoryEntry>, namespace, max, duration)
      : new RedisCounter(db, namespace, max, duration)
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
