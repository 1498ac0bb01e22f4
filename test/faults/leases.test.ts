import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { trial, until } from '../../bench/leases/trial.js'
import { parsePolicy } from '../../src/core/limit.js'
import { RedisServer } from '../support/redis-server.js'

let redis: RedisServer
let client: Redis
beforeAll(async () => {
  redis = await RedisServer.start()
  client = redis.client()
})
afterAll(() => redis.stop())

const POLICIES = ['20000/1s', '20000/1s token-bucket', '20000/1s fixed-window', '20000/1s sliding-counter']

test.each(POLICIES)('four processes at twice %s use it, and never more', async policy => {
  const { breach, used, callsPerDecision } = await trial(redis, client, { policy, processes: 4, demand: 2, seconds: 5 })
  expect(breach.excess).toBeLessThanOrEqual(0)
  expect(used).toBeGreaterThanOrEqual(0.85)
  expect(callsPerDecision).toBeLessThan(0.1)
})

test.each(POLICIES)('processes that are killed every 200 ms never exceed %s together', async policy => {
  const { breach, used } = await trial(redis, client, {
    policy,
    processes: 4,
    demand: 2,
    seconds: 6,
    meanwhile: async (fleet, startOne, untilAt) => {
      while (Date.now() < untilAt - 500) {
        await until(Date.now() + 200)
        fleet.killOldest()
        startOne()
      }
    },
  })
  expect(breach.excess).toBeLessThanOrEqual(0)
  // New processes take a while to start.
  expect(used).toBeGreaterThan(0.3)
})

test.each(POLICIES)('a Redis that stops for a second lets nobody exceed %s', async policy => {
  const { breach } = await trial(redis, client, {
    policy,
    processes: 4,
    demand: 2,
    seconds: 5,
    meanwhile: async () => {
      await until(Date.now() + 2000)
      redis.pause()
      await until(Date.now() + 1000)
      redis.unpause()
    },
  })
  expect(breach.excess).toBeLessThanOrEqual(0)
})

test.each(POLICIES.slice(0, 2))(
  'a Redis that loses its data lets at most one burst and rate x ttl more than %s pass',
  async policy => {
    const [{ burst }] = parsePolicy(policy)
    const { breach, used } = await trial(redis, client, {
      policy,
      processes: 4,
      demand: 2,
      seconds: 5,
      meanwhile: async () => {
        await until(Date.now() + 2000)
        await client.flushall()
      },
    })
    // The ttl is at most a twentieth of the window.
    expect(breach.excess).toBeLessThanOrEqual(burst + burst / 20)
    expect(used).toBeGreaterThan(0.7)
  },
)
