import { expect, test } from '@jest/globals'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { warnings } from '../support/warnings.js'

const warned = warnings()

test('a number below 1000 as window is warned of once, text never', () => {
  new RateLimiter({ policy: { quota: 3, window: 1000 } })
  new RateLimiter({ policy: [{ quota: 3, window: '60ms' }, '9/60ms'] })
  new RateLimiter({ policy: () => ({ quota: 3, window: 60 }) })
  expect(warned.codes).toEqual([])
  for (let i = 0; i < 2; i++) new RateLimiter({ policy: ['1/1s', { quota: 3, window: 60 }] })
  expect(warned.texts).toEqual(["a window of 60 is 60 ms: write '60s' if seconds are meant, or '60ms'"])
  expect(warned.codes).toEqual(['SPILLWAY_WINDOW'])
})
