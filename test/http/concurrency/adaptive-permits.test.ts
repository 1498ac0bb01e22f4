import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, test } from '@jest/globals'
import express, { type Response } from 'express'
import { type ConcurrencyLimit, concurrencyLimit } from '../../../src/http/adapters/express.js'
import { RedisStore } from '../../../src/index.js'
import { PolicyError } from '../../../src/limiter/core/errors.js'
import { adaptivePermits } from '../../../src/operating/adaptive/index.js'
import { eventually } from '../../support/eventually.js'
import { testRedis } from '../../support/test-redis.js'

const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

async function serve(limit: ConcurrencyLimit, handle: (res: Response) => unknown): Promise<string> {
  const app = express().use(limit)
  app.get('/', (_req, res) => void handle(res))
  const server = createServer(app).listen(0, '127.0.0.1')
  servers.push(server)
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

/** So many requests at a time, for so long. Gives how often each status was answered. */
async function load(url: string, lanes: number, ms: number): Promise<Record<number, number>> {
  const until = performance.now() + ms
  const statuses: Record<number, number> = {}
  const lane = async () => {
    while (performance.now() < until) {
      const answer = await fetch(url)
      await answer.text()
      statuses[answer.status] = (statuses[answer.status] ?? 0) + 1
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  return statuses
}

describe('concurrencyLimit with adaptive permits', () => {
  test('admits as many requests as its limit, reports the limit, and raises it while requests stay fast', async () => {
    const permits = adaptivePermits({ min: 2, initial: 4, max: 12 })
    const url = await serve(concurrencyLimit({ permits, wait: '5s' }), async res => {
      // A handler takes real time, which the limit is made of.
      await sleep(20)
      res.send('done')
    })
    expect((await fetch(url)).headers.get('ratelimit-policy')).toBe('"default";q=4;qu="concurrent-requests"')
    // A machine that stands still makes requests slow, and the limit rises later.
    const statuses = new Set<string>()
    await eventually('the limit has risen', async () => {
      for (const status of Object.keys(await load(url, 12, 300))) statuses.add(status)
      return permits.limit > 6
    })
    expect([...statuses]).toEqual(['200'])
    // Also the request that asks may raise it, when it ends.
    const before = permits.limit
    const told = (await fetch(url)).headers.get('ratelimit-policy')
    const policies = [before, permits.limit].map(limit => `"default";q=${limit};qu="concurrent-requests"`)
    expect(policies).toContain(told)
    await eventually('all have left', async () => permits.inUse === 0)
  })

  test('a streamed response and a request whose client has gone give no sample', async () => {
    const permits = adaptivePermits({ initial: 5 })
    const url = await serve(concurrencyLimit({ permits }), async res => {
      res.write('first')
      // Longer than any answer at once, in real time.
      await sleep(30)
      res.end('last')
    })
    expect(Object.keys(await load(url, 5, 600))).toEqual(['200'])
    expect(permits.limit).toBe(5)
  })
})

describe('over Redis', () => {
  const redis = testRedis()

  test('they are an error: permits adapt in each process', () => {
    const permits = adaptivePermits()
    const client = redis.client()
    expect(() => concurrencyLimit({ permits, client })).toThrow(PolicyError)
    expect(() => concurrencyLimit({ permits, client })).toThrow('adapts in each process')
    expect(() => concurrencyLimit({ permits, store: new RedisStore(client) })).toThrow('adapts in each process')
  })
})
