import { afterAll, afterEach, beforeAll, expect, jest, test } from '@jest/globals'
import { FleetReports } from '../../src/operating/dashboard/server/fleet-reports.js'
import { Semaphore } from '../../src/waiting/semaphore/semaphore.js'
import { RedisServer } from '../support/redis-server.js'

let redis: RedisServer
beforeAll(async () => {
  redis = await RedisServer.start()
})
afterEach(() => {
  jest.useRealTimers()
})
afterAll(() => redis.stop())

const INDEX = ['noted', 'facts', 'index'].map(part => `spillway:{!dashboard}:${part}`)

test('objects are recorded only in a Redis whose dashboard somebody has opened, and then within a minute', async () => {
  const client = redis.client()
  await client.ping()
  // What Redis does takes real time.
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] })
  const pass = async (seconds: number) => {
    for (let i = 0; i < seconds; i++) {
      await jest.advanceTimersByTimeAsync(1000)
      await client.ping()
    }
  }
  const semaphore = new Semaphore(client, 'reports', { permits: 1 })
  await pass(180)
  expect(await client.keys('*')).toEqual([])
  // As a dashboard that somebody looks at.
  const reports = new FleetReports(client, 'spillway')
  await reports.refresh()
  await pass(60)
  expect(await client.exists(...INDEX)).toBe(3)
  const later = new Semaphore(client, 'exports', { permits: 1 })
  await pass(10)
  await pass(1)
  jest.useRealTimers()
  const again = new FleetReports(client, 'spillway')
  await again.refresh()
  expect([...again.entries.values()].map(({ name }) => name).sort()).toEqual(['exports', 'reports'])
  await semaphore.close()
  await later.close()
})
