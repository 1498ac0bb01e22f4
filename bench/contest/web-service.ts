import type { Contender } from './contender.js'

export type Framework = 'express' | 'koa'

/** A service behind a limiter in memory or, with a port of Redis, there; without a limiter it is bare. */
export function service(
  framework: Framework,
  limiter = 'bare',
  options: { quota?: number; redisPort?: number } = {},
): Contender {
  const where = limiter === 'bare' ? '' : options.redisPort === undefined ? ' in memory' : ' on Redis'
  return { name: `${limiter}${where}`, file: 'http.mjs', setup: { framework, limiter, ...options } }
}
