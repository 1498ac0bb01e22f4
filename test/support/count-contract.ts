import { expect, test } from '@jest/globals'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import type { benchesOf, WholeStore } from './store-benches.js'

/** The limiter's name, what is spent under a first policy, and what then is left under a second one. */
type Story = [what: string, name: string | undefined, first: string, cost: number, second: string, left: number]

const STORIES: Story[] = [
  ['not to the quota', 'api', '5/1m', 3, '10/1m', 7],
  ['not to the quota of a fixed window', 'api', '5/1m fixed-window', 3, '10/1m fixed-window', 7],
  ['not to the quota of a sliding counter', 'api', '5/1m sliding-counter', 3, '10/1m sliding-counter', 7],
  ['not to the quota of a calendar window', 'api', '5/day calendar', 3, '10/day calendar', 7],
  ['to the algorithm', 'api', '5/1m', 3, '5/1m fixed-window', 5],
  ['to the window', 'api', '5/1m', 3, '5/2m', 5],
  ['to the window of the calendar', 'api', '5/day calendar', 3, '5/day calendar tz=Europe/Berlin', 5],
  ['as a share if it is a token bucket, whose quota', 'api', '10/1m token-bucket', 6, '20/1m token-bucket', 8],
  ['as a share if it is a token bucket, whose window', 'api', '10/1m token-bucket', 6, '10/1h token-bucket', 4],
  ['as a share if it is a token bucket, whose burst', 'api', '10/1m token-bucket', 6, '9/1h token-bucket burst=20', 8],
  ['as a share if it is a leaky bucket, whose quota', 'api', '10/1m leaky-bucket', 6, '20/1m leaky-bucket', 8],
  ['to a name that the limit has', 'api', '5/1m name=a', 3, '10/1m name=b', 10],
  ['to a name that the limit has, and then not to the quota', 'api', '5/1m name=a', 3, '10/1m name=a', 7],
  ['to a name that looks like one by default', 'api', '5/1m name=5-per-1m', 3, '5/1m', 5],
  ['to the quota under the default name', undefined, '5/1m', 3, '10/1m', 10],
  ['to the quota under the default name, also where it is given', 'default', '5/1m', 3, '10/1m', 10],
  ['to the quota of a bucket under the default name', undefined, '5/1m token-bucket', 3, '10/1m token-bucket', 10],
  ['not to the window of a bucket', undefined, '5/1m token-bucket', 3, '5/1h token-bucket', 2],
  ['to the window under the default name', undefined, '5/1m', 3, '5/2m', 5],
  ['to a name under the default name, and not to the quota', undefined, '5/1m name=a', 3, '10/1m name=a', 7],
  ['to a name that looks like a quota', undefined, '5/1m name=5', 3, '5/1m', 5],
]

/** Which limits share their counts: see `countName`. */
export function testCounts(onBench: ReturnType<typeof benchesOf>): void {
  const limiterOf = (store: WholeStore, name: string | undefined, policy: string) =>
    new RateLimiter({ store, policy, deadline: '10s', ...(name !== undefined && { name }) })
  const leftOf = async (limiter: RateLimiter) => (await limiter.peek('k', 0)).remaining

  test.each(STORIES)('belongs %s (limiter %s: %s, %i spent; %s)', (_, name, first, cost, second, left) =>
    onBench(async ({ store }) => {
      const before = limiterOf(store, name, first)
      const most = await leftOf(before)
      expect((await before.consume('k', cost)).allowed).toBe(true)
      expect(await leftOf(limiterOf(store, name, second))).toBe(left)
      expect(await leftOf(limiterOf(store, name, first))).toBe(most - cost)
    }),
  )

  test('belongs to the limiter', () =>
    onBench(async ({ store }) => {
      await limiterOf(store, 'api', '5/1m').consume('k', 3)
      expect(await leftOf(limiterOf(store, 'login', '5/1m'))).toBe(5)
      expect(await leftOf(limiterOf(store, undefined, '5/1m'))).toBe(5)
    }))

  test('is reset, refunded, charged and blocked for all limits that share it', () =>
    onBench(async ({ store }) => {
      const [small, large] = ['5/1m', '10/1m'].map(policy => limiterOf(store, 'api', policy))
      const others = ['5/1m', '10/1m'].map(policy => limiterOf(store, undefined, policy))
      for (const limiter of others) await limiter.consume('k', 3)
      await small.consume('k', 3)
      await large.refund('k', 1)
      expect(await leftOf(small)).toBe(3)
      await large.charge('k', 3)
      expect(await leftOf(small)).toBe(0)
      await large.block('k', '1h')
      expect((await small.peek('k')).blocked).toBe(true)
      await small.unblock('k')
      expect((await large.peek('k')).blocked).toBeUndefined()
      await small.reset('k')
      expect(await leftOf(large)).toBe(10)
      expect(await Promise.all(others.map(leftOf))).toEqual([2, 7])
      expect((await others[0].peek('k')).allowed).toBe(true)
    }))
}
