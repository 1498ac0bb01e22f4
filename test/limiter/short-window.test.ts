import { expect, test } from '@jest/globals'
import { Redis } from 'ioredis'
import { ThrottlerStorage } from '../../src/http/adapters/nest-throttler.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import expressRateLimit from '../../src/replacing/express-rate-limit/index.js'
import koaRateLimit from '../../src/replacing/koa-ratelimit/index.js'
import { RateLimiterMemory } from '../../src/replacing/rate-limiter-flexible/index.js'
import { warnings } from '../support/warnings.js'

const warned = warnings()

test.each<[string, () => unknown]>([
  ['the duration of rate-limiter-flexible', () => new RateLimiterMemory({ points: 5, duration: 0.5 })],
  [
    'the duration of koa-ratelimit',
    () => koaRateLimit({ driver: 'redis', db: new Redis({ lazyConnect: true }), duration: 500 }),
  ],
  ['the windowMs of express-rate-limit', () => expressRateLimit({ windowMs: 500, algorithm: 'sliding-window' })],
  ['the ttl of @nestjs/throttler', () => new ThrottlerStorage().increment('me', 500, 5, 0, 'default')],
])('%s has a fixed unit, so a short one is not warned of', async (_, make) => {
  await make()
  expect(warned.codes).not.toContain('SPILLWAY_WINDOW')
})

test('a number below 1000 as window is warned of once, text never', () => {
  new RateLimiter({ policy: { quota: 3, window: 1000 } })
  new RateLimiter({ policy: [{ quota: 3, window: '60ms' }, '9/60ms'] })
  new RateLimiter({ policy: () => ({ quota: 3, window: 60 }) })
  expect(warned.codes).toEqual([])
  for (let i = 0; i < 2; i++) new RateLimiter({ policy: ['1/1s', { quota: 3, window: 60 }] })
  expect(warned.texts).toEqual(["a window of 60 is 60 ms: write '60s' if seconds are meant, or '60ms'"])
  expect(warned.codes).toEqual(['SPILLWAY_WINDOW'])
})
