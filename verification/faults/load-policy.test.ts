import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { Child } from '../../test/support/child.js'
import { eventually } from '../../test/support/eventually.js'
import { RedisServer } from '../../test/support/redis-server.js'

/** Its limit follows its own load. Asked, it is busy for so long, and then consumes so often. */
const FOLLOWER = `
  import { setTimeout as sleep } from 'node:timers/promises'
  import { Redis } from 'ioredis'
  import { RateLimiter, RedisStore } from './src/index.ts'
  import { loadPolicy, processLoad } from './src/operating/adaptive/index.ts'
  import { answering } from './test/support/answering.ts'
  const [url, policy] = process.argv.slice(2)
  const following = loadPolicy(policy, { load: processLoad(), min: 0.1 })
  const limiter = new RateLimiter({ policy: following, store: new RedisStore(new Redis(url)), deadline: '5s' })
  answering(async ({ busyMs = 0, consume = 0 }) => {
    const until = performance.now() + busyMs
    while (performance.now() < until) {
      const pauseAt = performance.now() + 200
      while (performance.now() < pauseAt) {}
      // A turn of the event loop for what came meanwhile.
      await sleep(1)
    }
    let admitted = 0
    for (let i = 0; i < consume; i++) if ((await limiter.consume('everybody')).allowed) admitted++
    return { factor: following.factor, admitted }
  })
`

let redis: RedisServer
let workers: Child[]
beforeAll(async () => {
  redis = await RedisServer.start()
  workers = await Child.startAll(2, FOLLOWER, [redis.url, '100/10m'])
}, 60_000)
afterAll(async () => {
  for (const worker of workers) worker.kill()
  await redis.stop()
})

const tell = (worker: Child, order: { readonly busyMs?: number; readonly consume?: number }) =>
  worker.ask<{ factor: number; admitted: number }>(order)

test('of two processes that share a limit, the overloaded one admits fewer requests, the other as many as before', async () => {
  const [busy, calm] = workers
  const factorIsOne = async (worker: Child) => expect((await tell(worker, {})).factor).toBe(1)
  // What a process does at its start is load too.
  for (const worker of workers) await eventually('its factor is one', () => factorIsOne(worker), 20_000)
  expect(await tell(busy, { consume: 20 })).toMatchObject({ admitted: 20 })
  expect(await tell(calm, { consume: 20 })).toMatchObject({ admitted: 20 })

  // Forty are counted: more than the overloaded process may admit now, and less than half of what the other may.
  expect(await tell(busy, { busyMs: 4000, consume: 5 })).toEqual({ factor: 0.1, admitted: 0 })
  expect(await tell(calm, { consume: 20 })).toEqual({ factor: 1, admitted: 20 })

  await eventually('its factor is one', () => factorIsOne(busy), 30_000)
  expect(await tell(busy, { consume: 20 })).toEqual({ factor: 1, admitted: 20 })
  expect(await tell(calm, { consume: 30 })).toEqual({ factor: 1, admitted: 20 })
  expect(await tell(busy, { consume: 10 })).toEqual({ factor: 1, admitted: 0 })
}, 90_000)
