import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { rateLimit as expressRateLimit } from 'express-rate-limit'
import { rateLimit } from '../../src/http/adapters/express.js'
import { Child } from '../../test/support/child.js'
import { RedisServer } from '../../test/support/redis-server.js'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

/** Calls a partner so often, and tells how often each status was the last answer to a call. */
const CALLER = `
  import { Redis } from 'ioredis'
  import { politeFetch } from './src/outgoing/index.ts'
  import { answering } from './test/support/answering.ts'
  const [redisUrl, url] = process.argv.slice(2)
  const client = new Redis(redisUrl)
  await client.ping()
  const limits = { [new URL(url).origin]: { rate: 100, interval: '1s' } }
  const polite = politeFetch({ limits, client, maxWait: '5m' })
  answering(async count => {
    const statuses = {}
    const call = async () => {
      const answer = await polite(url)
      await answer.arrayBuffer()
      statuses[answer.status] = (statuses[answer.status] ?? 0) + 1
    }
    await Promise.all(Array.from({ length: count }, call))
    return statuses
  })
`

/** A service that limits its callers. Counts the answers that it gave; `at`: when each call arrived. */
async function partner(limit: RequestHandler) {
  const statuses: Record<string, number> = {}
  const at: number[] = []
  const app = express()
  app.use((_req, res, next) => {
    const arrivedAt = performance.now()
    res.once('finish', () => {
      statuses[res.statusCode] = (statuses[res.statusCode] ?? 0) + 1
      if (res.statusCode === 200) at.push(arrivedAt)
    })
    next()
  })
  app.use(limit)
  app.get('/', (_req, res) => {
    res.send('ok')
  })
  const server: Server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  cleanups.push(() => server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, statuses, at }
}

describe('eight processes with 5 000 calls to a partner that allows 100 per second', () => {
  test.each([
    ['our own Express service, sliding window', () => rateLimit({ policy: '100/1s', key: () => 'all' })],
    ['our own Express service, fixed window', () => rateLimit({ policy: '100/1s fixed-window', key: () => 'all' })],
    ['express-rate-limit', () => expressRateLimit({ limit: 100, windowMs: 1000, keyGenerator: () => 'all' })],
  ])(
    '%s: at most 1%% is refused, and at least 95%% of the limit is used',
    async (_, limit) => {
      const redis = await RedisServer.start()
      cleanups.push(() => redis.stop())
      const { url, statuses, at } = await partner(limit())
      const workers = await Child.startAll(8, CALLER, [redis.url, url])
      cleanups.push(() => workers.map(worker => worker.kill()))
      expect(await Promise.all(workers.map(worker => worker.ask(625)))).toEqual(Array(8).fill({ 200: 625 }))
      const refused = statuses[429] ?? 0
      // From the first to the 4 901st call: 49 windows of 100 calls.
      const usedShare = 49_000 / (at[4900] - at[0])
      console.log(`refused ${refused} of 5000, used ${(usedShare * 100).toFixed(1)} %`)
      expect(refused).toBeLessThanOrEqual(50)
      expect(usedShare).toBeGreaterThanOrEqual(0.95)
    },
    120_000,
  )
})
