import { describe, expect, test } from '@jest/globals'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import type { World } from './world.js'

/** A limiter in more than one place. */
export function sharingContract(world: World): void {
  const { whole, limited, serve, get, statuses, user } = world
  const doubles = () => world.warned.textsOf('SPILLWAY_DOUBLE')

  whole.describe('an existing limiter as option', () => {
    const made = (options = {}) => new RateLimiter({ policy: '3/1m', store: world.store, ...options })

    test('decides over HTTP with its own count', async () => {
      const limiter = made({ name: 'logins' })
      const middleware = world.adapter.rateLimit({ limiter, key: user })
      expect(middleware.limiter).toBe(limiter)
      await limiter.consume('ann')
      const app = serve(middleware)
      expect(await statuses(app, 3, { 'x-user': 'ann' })).toEqual([200, 200, 429])
      expect((await get(app, { 'x-user': 'bob' })).headers.ratelimit).toBe('"3-per-1m";r=2;t=60')
      expect((await limiter.peek('bob', 0)).remaining).toBe(2)
      expect(() => middleware.limiterFor('1/1m')).toThrow(/^rateLimit: limiterFor: .* expected limiter/)
    })

    test('can be combined with all options that are not its own', async () => {
      const limiter = made({ name: 'paid' })
      const settle = () => 3
      const app = serve(
        world.adapter.rateLimit({ limiter, key: user, cost: 0, settle, message: 'Enough', headers: [] }),
      )
      expect(await statuses(app, 2, { 'x-user': 'ann' })).toEqual([200, 429])
      const refused = await get(app, { 'x-user': 'ann' })
      expect([world.said(refused), refused.headers.ratelimit]).toEqual(['Enough', undefined])
      const blocking = serve(world.adapter.rateLimit({ limiter, key: user, block: { after: 1, for: '1h' } }))
      expect((await get(blocking, { 'x-user': 'ann' })).headers['retry-after']).toBe('3600')
    })

    test.each(
      Object.entries({
        policy: '1/1m',
        limit: 1,
        max: 1,
        windowMs: 1000,
        algorithm: 'fixed-window',
        store: {},
        name: 'x',
        deadline: 50,
        onStoreFailure: 'open',
        localShare: 1,
        denyCache: true,
        shadow: true,
        observer: {},
      }),
    )('does not go with %s', (name, value) => {
      expect(() => world.adapter.rateLimit({ limiter: made(), [name]: value })).toThrow(
        `rateLimit: given both limiter and ${name}: expected ${name} where the limiter is made`,
      )
    })

    test('must be a RateLimiter', () => {
      const wrong = { consume() {} } as unknown as RateLimiter
      expect(() => world.adapter.rateLimit({ limiter: wrong })).toThrow(
        /^rateLimit: limiter .*: expected a RateLimiter/,
      )
    })
  })

  describe('a request that is charged twice', () => {
    test('by the same middleware counts twice, which causes one warning', async () => {
      const limiter = limited({ policy: '10/1m' })
      const app = serve([limiter, limiter])
      expect(doubles()).toEqual([])
      expect((await get(app)).headers['x-ratelimit-remaining']).toBe('8')
      await statuses(app, 3)
      expect(doubles()).toHaveLength(1)
      expect(doubles()[0]).toContain('"10-per-1m"')
    })

    whole.test(
      'by two limiters of one name for the same key causes a warning, also with another one between',
      async () => {
        const app = serve([
          limited({ policy: '10/1m', key: user }),
          limited({ policy: '3/1h', name: 'other', key: user }),
          limited({ policy: '10/1m', key: user }),
        ])
        const { headers } = await get(app, { 'x-user': 'ann' })
        expect(headers['ratelimit-policy']).toContain('"3-per-1h"')
        await get(app, { 'x-user': 'ann' })
        expect(doubles()).toHaveLength(1)
      },
    )

    whole.test(
      'by two limits of one policy in two middlewares causes a warning, although both charge only afterwards',
      async () => {
        const settle = () => 1
        const later = () => limited({ policy: '10/1m;100/1h', key: user, cost: 0, settle })
        const limiter = later()
        await get(serve([limiter, later()]), { 'x-user': 'ann' })
        expect(doubles()).toHaveLength(1)
        expect((await limiter.limiter.peek('ann', 0)).remaining).toBe(8)
      },
    )

    whole.test('by a limit with its own key and by another middleware causes a warning', async () => {
      const each = { quota: 3, window: '1m', name: 'each', key: user }
      const all = { quota: 9, window: '1m', name: 'all', key: () => 'all' }
      await get(serve([limited({ policy: [each, all] }), limited({ policy: '9/1m', key: () => 'all' })]), {
        'x-user': 'ann',
      })
      expect(doubles()).toEqual([])
      await get(serve([limited({ policy: [each, all] }), limited({ policy: all })]), { 'x-user': 'ann' })
      expect(doubles()).toHaveLength(1)
      await get(serve([limited({ policy: each }), limited({ policy: { ...each, key: () => 'all' } })]), {
        'x-user': 'ann',
      })
      expect(doubles()).toHaveLength(1)
    })

    whole.test.each([
      ['another key', { key: () => 'other' }],
      ['another name', { name: 'other' }],
      ['another limit', { policy: '11/1m' }],
    ])('with %s causes no warning, because it is charged for two things', async (_, own) => {
      const app = serve([limited({ policy: '10/1m', key: user }), limited({ policy: '10/1m', key: user, ...own })])
      await statuses(app, 2, { 'x-user': 'ann' })
      expect(doubles()).toEqual([])
    })

    whole.test('by one limiter under two keys causes no warning', async () => {
      const limiter = new RateLimiter({ policy: '10/1m', store: world.store })
      const app = serve([
        world.adapter.rateLimit({ limiter, key: user }),
        world.adapter.rateLimit({ limiter, key: () => 'everybody' }),
      ])
      await get(app, { 'x-user': 'ann' })
      expect(doubles()).toEqual([])
    })
  })
}
