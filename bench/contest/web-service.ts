import type { Contender } from './contender.js'

export type Framework = 'express' | 'koa'

/** A service behind a limiter in memory or, with a port of Redis, there; without a limiter it is bare, or sets the
 * header fields of one. */
export function service(
  framework: Framework,
  limiter = 'bare',
  options: { quota?: number; redisPort?: number } = {},
): Contender {
  const isLimiter = limiter !== 'bare' && limiter !== 'fields by hand'
  const where = !isLimiter ? '' : options.redisPort === undefined ? ' in memory' : ' on Redis'
  return { name: `${limiter}${where}`, file: 'http.mjs', setup: { framework, limiter, ...options } }
}
