import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import express from 'express'
import { rateLimit } from '../../../src/http/adapters/express.js'
import type { LoadLevel } from '../../../src/http/load.js'
import { RedisStore } from '../../../src/index.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { loadPolicy } from '../../../src/operating/adaptive/index.js'
import { ManualClock } from '../../../src/testing.js'
import { RedisServer } from '../../support/redis-server.js'

const START = 1_700_000_000_000

describe.each(['memory', 'redis'] as const)('rateLimit over %s with a policy that follows a load', kind => {
  const load: LoadLevel & { level: number } = { level: 0, reason: 'custom' }
  let clock: ManualClock
  let redis: RedisServer | undefined
  let closing: Array<() => unknown>

  beforeEach(async () => {
    jest.useFakeTimers({
      doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'setTimeout', 'clearTimeout', 'Date'],
    })
    redis = kind === 'redis' ? await RedisServer.start() : undefined
    clock = new ManualClock(START)
    load.level = 0
    closing = []
  })
  afterEach(async () => {
    jest.useRealTimers()
    for (const close of closing) await close()
    await redis?.stop()
  })

  /** A service behind the policy, and how to ask it: the status and the header fields. */
  async function serve(policy: string) {
    const store = redis ? new RedisStore(redis.client(), { clock }) : new MemoryStore({ clock })
    const following = loadPolicy(policy, { load, min: 0.5 })
    const app = express().use(rateLimit({ policy: following, store, key: () => 'k', deadline: '5s' }))
    app.get('/', (_req, res) => void res.send('done'))
    const server = createServer(app).listen(0, '127.0.0.1')
    await once(server, 'listening')
    closing.push(
      () => server.closeAllConnections(),
      () => server.close(),
      () => store.close?.(),
    )
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    return async () => {
      const { status, headers } = await fetch(url)
      const fields = ['ratelimit-policy', 'ratelimit', 'x-ratelimit-limit', 'x-ratelimit-remaining', 'retry-after']
      return [status, ...fields.map(name => headers.get(name))]
    }
  }

  const halve = () => {
    load.level = 2
    jest.advanceTimersByTime(500)
    load.level = 0.8
  }
  const restore = () => {
    load.level = 0
    jest.advanceTimersByTime(6000)
  }

  test('a token bucket: fields and Retry-After tell the limit in force, and a request passes at the promised moment', async () => {
    const ask = await serve('20/1m token-bucket')
    const fields = (quota: number, left: number, fullAfter: number) => [
      `"20-per-1m";q=${quota};w=60`,
      `"20-per-1m";r=${left};t=${fullAfter}`,
      String(quota),
      String(left),
    ]
    expect(await ask()).toEqual([200, ...fields(20, 19, 3), null])
    halve()
    // One of 20 is half a one of ten.
    for (let left = 8; left >= 0; left--) {
      expect(await ask()).toEqual([200, ...fields(10, left, 6 * (10 - left) - 3), null])
    }
    // Ten a minute, and half a one is there: the next in three seconds.
    expect(await ask()).toEqual([429, ...fields(10, 0, 3), '3'])
    clock.advance(2999)
    expect(await ask()).toEqual([429, ...fields(10, 0, 1), '1'])
    clock.advance(1)
    expect(await ask()).toEqual([200, ...fields(10, 0, 60), null])
    expect(await ask()).toEqual([429, ...fields(10, 0, 6), '6'])
    // The limit rises: who was told to wait six seconds waits three.
    restore()
    expect(await ask()).toEqual([429, ...fields(20, 0, 3), '3'])
    clock.advance(3000)
    expect(await ask()).toMatchObject({ 0: 200, 3: '20', 4: '0' })
  })
})
