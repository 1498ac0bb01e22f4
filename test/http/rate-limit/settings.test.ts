import { describe, expect, test } from '@jest/globals'
import type { HttpOptions } from '../../../src/http/rate-limit/options.js'
import { parseHttpOptions } from '../../../src/http/rate-limit/settings.js'

const parse = (options: unknown) => parseHttpOptions(options as HttpOptions<[req: unknown, res: unknown]>)

test('a limiter of another copy of the package is refused by that reason', () => {
  class RateLimiter {}
  expect(() => parse({ limiter: new RateLimiter() })).toThrow(
    'rateLimit: limiter an object of class RateLimiter of another copy of spillway (npm ls spillway lists them): expected a RateLimiter',
  )
})

describe('what is allowed', () => {
  test.each([
    [{}, '5/1m'],
    [
      { limit: 7, windowMs: 1000, algorithm: 'fixed-window' },
      { quota: 7, window: 1000, algorithm: 'fixed-window' },
    ],
    [{ max: 0 }, { quota: 0, window: 60_000, algorithm: undefined }],
    [{ windowMs: '1h' }, { quota: 5, window: '1h', algorithm: undefined }],
    [{ policy: '100/1m', limit: undefined, windowMs: undefined }, '100/1m'],
  ])('%j is %j', (options, policy) => {
    expect(parse(options).policy).toEqual(policy)
  })

  test('a limit that is a function has one name for all quotas', async () => {
    const { policy } = parse({ limit: async (quota: number) => quota, windowMs: 90_000 })
    const ask = policy as (req: unknown, res: unknown) => Promise<unknown>
    expect(await ask(3, {})).toEqual({ quota: 3, window: 90_000, algorithm: undefined, name: 'per-1m30s' })
    expect(await ask(9, {})).toMatchObject({ quota: 9, name: 'per-1m30s' })
  })
})
