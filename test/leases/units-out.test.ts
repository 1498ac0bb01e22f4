import { beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { ManualClock } from '../../src/testing.js'
import { START } from '../support/stories.js'
import { testRedis } from '../support/test-redis.js'

const TTL_MS = 1000

const redis = testRedis()
let client: Redis
let prefixes = 0
beforeAll(() => {
  client = redis.client()
})

/** Two processes over one clock. */
function twoOf(policy: string) {
  const clock = new ManualClock(START)
  const prefix = `out ${prefixes++}`
  const processOf = () => {
    const store = new RedisStore(client, { clock, prefix, leases: { ttl: TTL_MS } })
    return { store, limiter: new RateLimiter({ policy, store, deadline: '10s' }) }
  }
  return { clock, holder: processOf(), other: processOf() }
}

type World = ReturnType<typeof twoOf>

/** The holder has unspent units on a lease, and `other` has taken all that Redis had besides. */
async function drain({ clock, holder, other }: World): Promise<void> {
  for (let i = 0; i < 40; i++) await holder.limiter.consume('k')
  for (;;) {
    const { allowed, remaining } = await other.limiter.consumeUpTo('k', 1000)
    if (remaining === 0) return
    // A lease was asked for the whole: it says when it asks again.
    if (!allowed) clock.advance(1)
  }
}

describe.each(['1000/1h fixed-window', '1000/1h sliding-counter', '1000/1h sliding-window'])('under %s', policy => {
  test('a process that leases is refused for one ttl at most while another holds units, and gets them then', async () => {
    const world = twoOf(policy)
    const { clock, holder, other } = world
    for (let i = 0; i < 40; i++) await holder.limiter.consume('k')
    // So busy that it leases.
    for (let i = 0; i < 20; i++) await other.limiter.consume('k')
    const all = await Promise.all(Array.from({ length: 1000 }, () => other.limiter.consume('k')))
    let refused = all[all.length - 1]
    expect(refused.allowed).toBe(false)
    let waitedMs = 0
    while (!refused.allowed) {
      expect(refused.retryAfterMs).toBeLessThanOrEqual(TTL_MS)
      clock.advance(refused.retryAfterMs)
      waitedMs += refused.retryAfterMs
      // What its timer does once a ttl.
      await holder.store.close()
      refused = await other.limiter.consume('k')
    }
    expect(waitedMs).toBeLessThanOrEqual(2 * TTL_MS)
  })

  test.each(['consume', 'peek', 'consumeUpTo'] as const)('a process that does not lease is, too (%s)', async verb => {
    const world = twoOf(policy)
    const { clock, holder, other } = world
    await drain(world)
    const refused = await other.limiter[verb]('k', 1)
    expect(refused).toMatchObject({ allowed: false })
    expect(refused.retryAfterMs).toBeLessThanOrEqual(TTL_MS)
    // It is remembered for as long as it says.
    clock.advance(refused.retryAfterMs - 1)
    expect(await other.limiter.consume('k')).toMatchObject({ allowed: false, source: 'deny-cache' })
    await holder.store.close()
    clock.advance(1)
    expect(await other.limiter.consume('k')).toMatchObject({ allowed: true })
  })

  test('a larger cost is not said to be refused for longer than a ttl', async () => {
    const world = twoOf(policy)
    const { limiter } = world.other
    await drain(world)
    for (const cost of [1, 2, 5]) {
      const refused = await limiter.consume('k', cost)
      expect(refused.allowed).toBe(false)
      expect(refused.retryAfterMs).toBeLessThanOrEqual(TTL_MS)
    }
  })
})

test('once no units are out, a refusal lasts until the window ends, and is remembered', async () => {
  const { clock, holder } = twoOf('1000/1h fixed-window')
  let last = await holder.limiter.consume('k')
  while (last.allowed || last.retryAfterMs <= TTL_MS) {
    if (!last.allowed) clock.advance(last.retryAfterMs)
    last = await holder.limiter.consume('k')
  }
  // It holds nothing, and nobody else leases.
  expect(last.retryAfterMs).toBe(3_600_000 - (clock.now() - START))
  clock.advance(999)
  expect(await holder.limiter.consume('k')).toMatchObject({ allowed: false, source: 'deny-cache' })
})

test('units of a process that died are waited for no longer than they could come back', async () => {
  const world = twoOf('1000/1h fixed-window')
  const { clock, other } = world
  await drain(world)
  clock.advance(2 * TTL_MS)
  expect((await other.limiter.consume('k')).retryAfterMs).toBe(3_600_000 - (clock.now() - START))
})
