import { beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import type { Decision } from '../../../src/limiter/core/decision.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { RedisStore, type RedisStoreOptions } from '../../../src/redis/store/redis-store.js'
import { jsonFromChild } from '../../support/child.js'
import { eventually } from '../../support/eventually.js'
import { monitor } from '../../support/monitor.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
let admin: Redis
beforeAll(() => {
  admin = redis.client()
})

function limiterOver(client: object, options: RedisStoreOptions): RateLimiter {
  return new RateLimiter({ policy: '2/1h', store: new RedisStore(client, options), deadline: '5s' })
}

/** Limiters of two processes, as far as Redis can tell. */
function twins(prefix: string, shareResets?: boolean): [RateLimiter, RateLimiter] {
  const make = () => limiterOver(redis.client(), { prefix, shareResets })
  return [make(), make()]
}

/** Has a limiter of these prefix remember a denial of the key, while it listens to others. */
async function denied(limiter: RateLimiter, key: string, cost = 1): Promise<void> {
  const listeners = async () => {
    const names = (await admin.pubsub('CHANNELS', '*!resets')) as string[]
    const counts = (await admin.pubsub('NUMSUB', ...names)) as (string | number)[]
    return counts.reduce<number>((sum, count) => sum + (typeof count === 'number' ? count : 0), 0)
  }
  const before = await listeners()
  expect((await limiter.consume(key, cost)).allowed).toBe(false)
  await eventually('it listens', async () => (await listeners()) > before)
  // Its client has read that it listens.
  await new Promise(done => setTimeout(done, 20))
  expect((await limiter.consume(key, cost)).source).toBe('deny-cache')
}

describe('a denial that this process remembers', () => {
  const CHANGES: Record<string, (limiter: RateLimiter) => Promise<void>> = {
    'a refund': limiter => limiter.refund('k'),
    'a reset': limiter => limiter.reset('k'),
  }
  test.each(Object.keys(CHANGES))('ends at %s in another process', async name => {
    const [one, other] = twins(name)
    await one.consume('k', 2)
    await denied(other, 'k')
    await CHANGES[name](one)
    await eventually('it is allowed', async () => (await other.consume('k')).allowed, 1000)
  })

  test('ends at an unblock in another process', async () => {
    const [one, other] = twins('unblock')
    await one.block('k', '1h')
    await denied(other, 'k')
    await one.unblock('k')
    await eventually('it is allowed', async () => (await other.consume('k')).allowed, 1000)
  })

  test('ends with a block that another process has shortened', async () => {
    const [one, other] = twins('shortened')
    await one.block('k', '1h')
    await denied(other, 'k')
    await one.block('k', 300)
    await eventually('it knows', async () => (await other.peek('k')).retryAfterMs <= 300, 1000)
    await eventually('it is allowed', async () => (await other.consume('k')).allowed, 1000)
  })

  test('ends at a settlement to less in another process, for keys of any kind', async () => {
    const key = 'käse {1}:"2"\u0000'
    const [one, other] = twins('settled')
    const decision = await one.consume(key, 2)
    await denied(other, key)
    await one.settle(decision, 0)
    await eventually('it is allowed', async () => (await other.consume(key, 2)).allowed, 1000)
  })

  test('ends at many refunds of one moment, which are announced together', async () => {
    const [one, other] = twins('together')
    const keys = Array.from({ length: 2000 }, (_, i) => `k${i}`)
    await one.consume('k1999', 2)
    await denied(other, 'k1999')
    const told = async () => Number(/cmdstat_publish:calls=(\d+)/.exec(await admin.info('commandstats'))?.[1] ?? 0)
    const before = await told()
    await Promise.all(keys.map(key => one.refund(key)))
    await eventually('it is allowed', async () => (await other.consume('k1999')).allowed, 1000)
    expect((await told()) - before).toBeLessThan(200)
  })

  test('is not used after messages may have been missed', async () => {
    const [one, other] = twins('missed')
    await one.consume('k', 2)
    await denied(other, 'k')
    await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await eventually('Redis is asked', async () => (await other.consume('k')).source === 'redis')
  })

  test('is used from the first moment on, while the process only begins to listen, but for a second at most', async () => {
    const [one, other] = twins('first moments')
    await one.consume('k', 2)
    expect((await other.consume('k')).source).toBe('redis')
    const deniedAt = performance.now()
    const sources = new Set<string>()
    while (performance.now() - deniedAt < 700) {
      sources.add((await other.consume('k')).source)
      await new Promise(done => setTimeout(done, 5))
    }
    expect([...sources]).toEqual(['deny-cache'])
    // A change in the moment before it listened may have been missed.
    await eventually('Redis is asked', async () => (await other.consume('k')).source === 'redis', 1000)
    expect((await other.consume('k')).source).toBe('deny-cache')
  })

  test('stays if processes do not notify each other: no process listens', async () => {
    const [one, other] = twins('alone', false)
    await one.consume('k', 2)
    expect((await other.consume('k')).source).toBe('redis')
    expect((await other.consume('k')).source).toBe('deny-cache')
    await one.reset('k')
    expect(await admin.pubsub('CHANNELS', 'alone*')).toEqual([])
    expect((await other.consume('k')).source).toBe('deny-cache')
  })

  test.each([true, false])(
    'ends at once at a reset by another store on the same client (shareResets: %p)',
    async shareResets => {
      const client = redis.client()
      const prefix = `one client ${shareResets}`
      const [one, other] = [limiterOver(client, { prefix, shareResets }), limiterOver(client, { prefix, shareResets })]
      await one.consume('k', 2)
      expect((await other.consume('k')).allowed).toBe(false)
      await one.reset('k')
      expect((await other.consume('k')).allowed).toBe(true)
    },
  )
})

test.each([
  'not JSON',
  '',
  '7',
  'null',
  '"k"',
  '["k"]',
  '{}',
  '{"from":1,"keys":["k"]}',
  '{"from":"x","keys":7}',
  '{"from":"x","keys":[7]}',
  '{"from":"x"}',
])('an invalid message is ignored: %s', async text => {
  const prefix = `message ${Buffer.from(text).toString('hex')}`
  const [one, other] = twins(prefix)
  await one.consume('k', 2)
  await denied(other, 'k')
  await admin.publish(`${prefix}!resets`, text)
  await admin.publish(`${prefix}!resets`, JSON.stringify({ from: 'x', keys: ['another'] }))
  expect(await other.consume('k')).toMatchObject({ allowed: false, source: 'deny-cache' })
})

test.each<[string, (limiter: RateLimiter, decision: Decision) => Promise<unknown>]>([
  ['a settlement', (limiter, decision) => limiter.settle(decision, 1)],
  ['a refund', limiter => limiter.refund('k')],
  ['a reset', limiter => limiter.reset('k')],
  ['a block', limiter => limiter.block('k', '1m')],
])('%s is one call, which also tells the others and wakes those who wait', async (name, change) => {
  const [one, other] = twins(`one call: ${name}`)
  const decision = await one.consume('k', 2)
  await denied(other, 'k')
  const sent: string[][] = []
  const stop = await monitor(redis.port, ({ args, byScript }) => {
    if (!byScript) sent.push(args)
  })
  await change(one, decision)
  await admin.echo('the end')
  await eventually('all is seen', async () => sent.some(([command]) => command === 'echo'))
  stop()
  expect(sent.map(([command]) => command)).toEqual(['evalsha', 'echo'])
})

test('a process without permission to listen or to publish prints one warning, and decides as before', async () => {
  await admin.call('ACL', 'SETUSER', 'deaf', 'reset', 'on', '>password', '~*', '+@all', 'resetchannels')
  const warnings = await jsonFromChild<string[]>(
    `const { Redis } = await import('ioredis')
     const { RedisStore } = await import('./src/redis/store/redis-store.ts')
     const { RateLimiter } = await import('./src/limiter/rate-limiter.ts')
     const warnings = []
     process.on('warning', warning => warnings.push(warning.code))
     const client = new Redis(process.env.REDIS_URL, { username: 'deaf', password: 'password' })
     const limiter = new RateLimiter({ policy: '2/1h', store: new RedisStore(client, { prefix: 'deaf' }), deadline: '5s' })
     await limiter.consume('k', 2)
     for (let i = 0; i < 3; i++) {
       await limiter.consume('k')
       await limiter.reset('other')
       // As long as a warning would take to come.
       await new Promise(resolve => setTimeout(resolve, 100))
     }
     console.log(JSON.stringify(warnings.filter(code => code === 'SPILLWAY_STORE')))
     await client.quit()`,
    { env: { REDIS_URL: redis.url } },
  )
  expect(warnings).toEqual(['SPILLWAY_STORE'])
  const subscribed = /cmdstat_subscribe:calls=\d+,.*rejected_calls=(\d+)/.exec(await admin.info('commandstats'))
  expect(Number(subscribed?.[1])).toBeLessThanOrEqual(1)
})
