import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { createClient } from 'redis'
import { RedisStore } from '../../src/index.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { scriptCalls } from '../../test/support/lines.js'
import { RedisServer } from '../../test/support/redis-server.js'

jest.setTimeout(60_000)

const OUTAGE_MS = 10_000
const A_SECOND = 1000

let redis: RedisServer
beforeEach(async () => {
  redis = await RedisServer.start()
})
afterEach(() => redis.stop())

/** Keeps up a rate of calls until a moment. Returns how many were made. */
async function storm(call: (n: number) => Promise<unknown>, untilAt: number): Promise<number> {
  const startedAt = performance.now()
  let made = 0
  const outcomes: Promise<unknown>[] = []
  while (performance.now() < untilAt) {
    const due = ((performance.now() - startedAt) / 1000) * A_SECOND
    while (made < due) outcomes.push(call(made++).catch(() => {}))
    if (outcomes.length > 5000) await Promise.all(outcomes.splice(0))
    await pause(2)
  }
  await Promise.all(outcomes)
  return made
}

async function clientOf(name: string): Promise<object> {
  if (name === 'ioredis') return redis.client({ retryStrategy: times => Math.min(times * 50, 500) })
  const client = createClient({ url: redis.url, socket: { reconnectStrategy: retries => Math.min(retries * 50, 500) } })
  client.on('error', () => {})
  await client.connect()
  return client
}

const CHANGES: Record<string, (limiter: RateLimiter, key: string) => Promise<unknown>> = {
  refund: (limiter, key) => limiter.refund(key),
  'charge, reset, block and settle in turn': async (limiter, key) => {
    const turn = Number(key.slice(1)) % 4
    if (turn === 0) return limiter.charge(key)
    if (turn === 1) return limiter.reset(key)
    if (turn === 2) return limiter.block(key, '1m')
    return limiter.settle(await limiter.consume(key, 2), 1)
  },
}

describe.each(['ioredis', 'node-redis'])('1000 changes a second over %s', name => {
  test.each(Object.keys(CHANGES))(
    'while Redis hangs for 10 s: at most 200 scripts reach it afterwards, and memory stays flat: %s',
    async change => {
      const client = await clientOf(name)
      const limiter = new RateLimiter({ policy: '1000000/1h', store: new RedisStore(client), denyCache: false })
      await storm(n => limiter.consume(`k${n % 100}`), performance.now() + 2000)
      const before = await scriptCalls(redis.client())
      redis.pause()
      const startedAt = performance.now()
      await storm(n => CHANGES[change](limiter, `k${n}`), startedAt + 1000)
      globalThis.gc?.()
      const atFirst = process.memoryUsage().heapUsed
      const made = await storm(n => CHANGES[change](limiter, `k${n}`), startedAt + OUTAGE_MS)
      globalThis.gc?.()
      const grownMb = (process.memoryUsage().heapUsed - atFirst) / 2 ** 20
      redis.unpause()
      await pause(500)
      const reached = (await scriptCalls(redis.client())) - before
      console.log(
        `${name}, hangs, ${change}: ${made} changes, ${reached} scripts afterwards, ${grownMb.toFixed(1)} MB more`,
      )
      expect(made).toBeGreaterThan(5000)
      expect(reached).toBeLessThanOrEqual(200)
      // Calls that were made and not sent would hold 6 kB each, so 50 MB.
      expect(grownMb).toBeLessThan(20)
      ;(client as { destroy?(): void }).destroy?.()
    },
  )

  test('while Redis is dead for 10 s: at most 200 commands wait in the client, and at most 200 scripts reach the next server', async () => {
    const client = await clientOf(name)
    const limiter = new RateLimiter({ policy: '1000000/1h', store: new RedisStore(client), denyCache: false })
    await storm(n => limiter.consume(`k${n % 100}`), performance.now() + 2000)
    await redis.kill()
    const made = await storm(n => limiter.refund(`k${n}`), performance.now() + OUTAGE_MS)
    const { offlineQueue } = client as { offlineQueue?: { length: number } }
    await redis.restart()
    await pause(1500)
    const reached = await scriptCalls(redis.client())
    console.log(
      `${name}, dead: ${made} changes, ${offlineQueue?.length ?? '-'} in the offline queue, ${reached} scripts afterwards`,
    )
    expect(made).toBeGreaterThan(5000)
    expect(offlineQueue?.length ?? 0).toBeLessThanOrEqual(200)
    expect(reached).toBeLessThanOrEqual(200)
    ;(client as { destroy?(): void }).destroy?.()
  })
})
