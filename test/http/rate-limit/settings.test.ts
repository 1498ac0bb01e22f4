import { describe, expect, test } from '@jest/globals'
import type { HttpOptions } from '../../../src/http/rate-limit/options.js'
import { parseHttpOptions } from '../../../src/http/rate-limit/settings.js'
import { CostError, PolicyError } from '../../../src/limiter/core/errors.js'

const parse = (options: unknown) => parseHttpOptions(options as HttpOptions<unknown, unknown>)

// [options, what the error says]
const wrong: Array<[unknown, RegExp]> = [
  ['100/1m', /^rateLimit: given "100\/1m", expected options like \{ policy: "100\/1m" \}$/],
  [null, /^rateLimit: given null/],
  [['100/1m'], /^rateLimit: given an array of 1/],
  [{ polcy: '1/1m' }, /^rateLimit: unknown option "polcy": did you mean policy\?$/],
  [{ statuscode: 420 }, /did you mean statusCode\?$/],
  [{ window: 1000 }, /unknown option "window": windowMs is the time of limit; or policy has both, like "100\/1m"$/],
  [{ standardHeaders: true }, /headers lists the forms of the header fields/],
  [
    { keyPrefix: 'app' },
    /unknown option "keyPrefix": the prefix of keys is an option of the store, like new RedisStore\(/,
  ],
  [{ prefix: 'app' }, /unknown option "prefix": the prefix of keys is an option of the store/],
  [{ onLimitReached: () => {} }, /unknown option "onLimitReached": handler answers a refused request/],
  [{ redis: {} }, /unknown option "redis": store is where counts live, like new RedisStore\(client\)$/],
  [{ mystery: {} }, /unknown option "mystery": expected policy, limit, max, windowMs/],
  [{ policy: '1/1m', limit: 5 }, /given both policy and limit, expected one of them: .* like "100\/1m fixed-window"/],
  [{ policy: '1/1m', max: 5 }, /given both policy and limit/],
  [{ policy: '1/1m', windowMs: 5 }, /given both policy and windowMs/],
  [{ policy: '1/1m', algorithm: 'fixed-window' }, /given both policy and algorithm/],
  [{ limit: 5, max: 5 }, /given both limit and max, which are one option: expected limit alone/],
  [{ key: () => 'a', keyGenerator: () => 'a' }, /given both key and keyGenerator/],
  [{ windowMs: 0 }, /rateLimit: windowMs: duration 0: expected whole milliseconds > 0/],
  [{ windowMs: '60' }, /rateLimit: windowMs: duration "60"/],
  [{ key: 'ip' }, /rateLimit: key "ip": expected a function, like \{ key: req => req\.user\?\.id \}/],
  [{ skip: true }, /rateLimit: skip true: expected a function/],
  [{ ipv6Subnet: 0 }, /rateLimit: ipv6Subnet 0: expected an integer from 1 to 128, like 56, or false/],
  [{ ipv6Subnet: 129 }, /ipv6Subnet 129/],
  [{ ipv6Subnet: true }, /ipv6Subnet true/],
  [{ statusCode: 42 }, /rateLimit: statusCode 42: expected an integer from 200 to 599, like 429/],
  [{ statusCode: '429' }, /statusCode "429"/],
  [{ headers: 'draft-8' }, /rateLimit: headers "draft-8": expected a list of draft-8, draft-7, draft-6, legacy/],
  [{ headers: false }, /headers false: .* or \[\] for none/],
  [{ headers: ['draft-9'] }, /headers \["draft-9"\]: expected a list/],
  [
    { headers: ['draft-8', 'draft-7'] },
    /headers \["draft-8", "draft-7"\]: draft-8 gives RateLimit-Policy another form/,
  ],
  [{ message: 1n }, /message: given 1n, which JSON cannot represent/],
]

test.each(wrong)('%j is refused', (options, says) => {
  expect(() => parse(options)).toThrow(says)
  expect(() => parse(options)).toThrow(PolicyError)
})

test('a limiter of another copy of the package is refused by that reason', () => {
  class RateLimiter {}
  expect(() => parse({ limiter: new RateLimiter() })).toThrow(
    'rateLimit: limiter an object of class RateLimiter of another copy of spillway (npm ls spillway lists them): expected a RateLimiter',
  )
})

test.each([Number.NaN, -1, 1.5, Number.POSITIVE_INFINITY, '1', null])('a constant cost of %p is refused', cost => {
  expect(() => parse({ cost })).toThrow(/^rateLimit: cost .*: expected an integer ≥ 0, like 1/)
  expect(() => parse({ cost })).toThrow(CostError)
})

describe('what is allowed', () => {
  test.each([
    [{}, { quota: 5, window: 60_000, algorithm: undefined }],
    [
      { limit: 7, windowMs: 1000, algorithm: 'fixed-window' },
      { quota: 7, window: 1000, algorithm: 'fixed-window' },
    ],
    [{ max: 0 }, { quota: 0, window: 60_000, algorithm: undefined }],
    [{ windowMs: '1h' }, { quota: 5, window: 3_600_000, algorithm: undefined }],
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
