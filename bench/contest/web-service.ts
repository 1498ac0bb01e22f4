import type { HeaderForm } from '../../src/http/headers.js'
import type { Contender } from './contender.js'

export type Framework = 'express' | 'koa' | 'fastify' | 'hono' | 'nest' | 'node' | 'fetch'

interface ServiceOptions {
  readonly quota?: number
  readonly redisPort?: number
  /** The header fields of spillway, where they are not those that it has by default. */
  readonly headers?: readonly HeaderForm[]
}

export const BARE = 'bare'
/** No limiter, but the header fields that spillway has by default, for what they cost by themselves. */
export const BY_HAND = 'fields by hand'
/** The same behind an awaited INCR: the least that a limiter on Redis which asks for each request by itself can cost. */
export const INCR_BY_HAND = 'INCR and fields by hand'

/** A service behind a limiter in memory or, with a port of Redis, there; without a limiter it is bare, or sets the
 * header fields of one. */
export function service(framework: Framework, limiter = BARE, options: ServiceOptions = {}): Contender {
  const isLimiter = limiter !== BARE && limiter !== BY_HAND
  const where = !isLimiter ? '' : options.redisPort === undefined ? ' in memory' : ' on Redis'
  const forms = options.headers === undefined ? '' : `, ${options.headers.join(', ')}`
  return { name: `${limiter}${where}${forms}`, file: 'http.mjs', setup: { framework, limiter, ...options } }
}
