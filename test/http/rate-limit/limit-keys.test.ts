import { describe, expect, test } from '@jest/globals'
import { rateLimit } from '../../../src/http/adapters/express.js'
import { type HttpPolicyInput, partKeys } from '../../../src/http/rate-limit/options.js'

type Args = [req: { user: string }, res?: unknown]
type Input = HttpPolicyInput<Args>
const user = (req: { user: string }) => req.user

describe('a policy whose limits may have keys of their own', () => {
  test('without keys is not changed', () => {
    for (const input of ['10/1s', '10/1s; 5/1m', { quota: 5, window: '1m' }, ['10/1s', { quota: 5, window: '1m' }]]) {
      expect(partKeys(input as Input)).toEqual({ policy: input, keys: undefined })
    }
  })

  test('is divided into a policy without keys and the keys by the names of the limits', () => {
    const { policy, keys } = partKeys<Args>([
      '10/1s',
      { quota: 1000, window: '1h', key: user },
      { quota: 50_000, window: '1h', name: 'service', key: () => 'all' },
    ])
    expect(policy).toEqual(['10/1s', { quota: 1000, window: '1h' }, { quota: 50_000, window: '1h', name: 'service' }])
    expect([...keys!.keys()]).toEqual(['1000-per-1h', 'service'])
    expect(keys!.get('1000-per-1h')!({ user: 'ann' }, undefined)).toBe('ann')
  })

  test('may have windows of the calendar, with a time zone and a key', () => {
    const day = { quota: 500, calendar: 'day', timezone: 'Europe/Berlin' } as const
    const ofExpress = [
      rateLimit({ policy: { quota: 500, calendar: 'day', timezone: 'Europe/Berlin' } }),
      rateLimit({ policy: ['10/1s', { quota: 500, calendar: 'day', timezone: 'Europe/Berlin', key: req => req.ip }] }),
    ]
    for (const { limiter } of ofExpress) {
      expect(limiter.policy.at(-1)?.calendar).toEqual({ window: 'day', timezone: 'Europe/Berlin' })
    }
    const policies = rateLimit({ policy: req => ({ ...day, key: () => req.ip }) })
    expect(policies.limiterFor(day).policy[0].calendar?.timezone).toBe('Europe/Berlin')
  })

  test('may be one limit with a key', () => {
    const { policy, keys } = partKeys<Args>({ quota: 5, window: '1m', key: user })
    expect(policy).toEqual({ quota: 5, window: '1m' })
    expect([...keys!.keys()]).toEqual(['5-per-1m'])
  })

  test('an undefined key means no key', () => {
    expect(partKeys({ quota: 5, window: '1m', key: undefined })).toEqual({
      policy: { quota: 5, window: '1m' },
      keys: undefined,
    })
  })
})
