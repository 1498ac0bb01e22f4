import { EventEmitter } from 'node:events'
import { describe, expect, test } from '@jest/globals'
import express from 'express'
import request from 'supertest'
import {
  addressKey,
  clientAddress,
  concurrencyLimit,
  type RateLimitOptions,
  rateLimit,
  shed,
} from '../../src/http/adapters/express.js'
import { limitMessages } from '../../src/http/adapters/ws.js'
import type { Decision } from '../../src/limiter/core/decision.js'
import { PolicyError } from '../../src/limiter/core/errors.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { warnings } from '../support/warnings.js'

const warned = warnings()

/** Asks once, through these middlewares. */
async function ask(middlewares: express.RequestHandler[], fields: Record<string, string> = {}): Promise<number> {
  const app = express().use(...middlewares)
  app.get('/', (_req, res) => void res.status(401).send('no'))
  return (await request(app).get('/').set(fields)).status
}

describe('requests under a cost of 0 that are settled', () => {
  test('are told to the observer once each, as allowed or refused', async () => {
    const told: Array<[limiter: string, allowed: boolean]> = []
    const decided = (decision: Decision, limiter: string) => told.push([limiter, decision.allowed])
    const login = rateLimit({
      policy: '3/15m',
      name: 'login',
      key: () => 'ann',
      cost: 0,
      settle: (_req, res) => (res.statusCode === 401 ? 1 : 0),
      observer: { decided },
    })
    const statuses: number[] = []
    for (let i = 0; i < 5; i++) statuses.push(await ask([login]))
    expect(statuses).toEqual([401, 401, 401, 429, 429])
    expect(told).toEqual([true, true, true, false, false].map(allowed => ['login', allowed]))
  })

  test('are counted where they were looked at: while the store fails, in the process', async () => {
    const fail = () => Promise.reject(new Error('away'))
    const store = { consume: fail, peek: fail, charge: fail, refund: fail, reset: fail }
    const login = rateLimit({
      policy: '3/15m',
      store,
      key: () => 'ann',
      cost: 0,
      settle: (_req, res) => (res.statusCode === 401 ? 1 : 0),
    })
    const statuses: number[] = []
    for (let i = 0; i < 5; i++) statuses.push(await ask([login]))
    expect(statuses).toEqual([401, 401, 401, 429, 429])
    expect(warned.textsOf('SPILLWAY_SETTLE')).toEqual([])
  })

  test('pay nothing if they would have been refused without `shadow`', async () => {
    const options = { policy: '2/2m token-bucket', store: new MemoryStore() } as const
    const login = rateLimit({ ...options, key: () => 'ann', shadow: true, cost: 0, settle: () => 1 })
    for (let i = 0; i < 6; i++) expect(await ask([login])).toBe(401)
    const { retryAfterMs } = await new RateLimiter(options).peek('ann')
    expect(retryAfterMs).toBeGreaterThan(0)
    expect(retryAfterMs).toBeLessThanOrEqual(60_000)
  })
})

describe('two limiters that share a count', () => {
  test('on one store cause one warning if they have no names; with names, other limits or other stores they do not', () => {
    const store = new MemoryStore()
    const made = [
      rateLimit({ policy: '3/1m', store }),
      rateLimit({ policy: '3/1m', store, name: 'login' }),
      rateLimit({ policy: '3/1m', store: new MemoryStore() }),
      rateLimit({ policy: '4/1m; 3/1m token-bucket', store }),
      rateLimit({ policy: '3/1m' }),
      rateLimit({ policy: '3/1m', store, name: 'default' }),
    ]
    expect(warned.textsOf('SPILLWAY_SHARED')).toEqual([])
    made.push(rateLimit({ policy: '5/1h; 3/1m', store }), rateLimit({ policy: '3/1m', store }))
    expect(warned.textsOf('SPILLWAY_SHARED')).toEqual([expect.stringContaining('the limit "3-per-1m", one store')])
    expect(made).toHaveLength(8)
  })

  test('cause a warning about each request that both count, if they have one name and different quotas', async () => {
    const store = new MemoryStore()
    const limits = ['3/1m', '5/1m'].map(policy => rateLimit({ policy, store, name: 'api' }))
    expect(await ask(limits)).toBe(401)
    expect(warned.textsOf('SPILLWAY_DOUBLE')).toEqual([expect.stringContaining('twice for the limit "5-per-1m"')])
    warned.clear()
    expect(await ask(['3/1m', '5/1m'].map(policy => rateLimit({ policy, store })))).toBe(401)
    expect(warned.textsOf('SPILLWAY_DOUBLE')).toEqual([])
  })
})

test('a policy that is given as undefined is an error, as of an unset variable', () => {
  expect(() => rateLimit({ policy: undefined })).toThrow(PolicyError)
  expect(() => rateLimit({ policy: undefined })).toThrow('policy undefined: expected a policy, like "100/1m"')
  expect(rateLimit().limiter.policy[0].name).toBe('5-per-1m')
})

test('a constant cost that no request can ever pay is an error', () => {
  const never = 'cost 10: the limit "5-per-1m" never admits more than 5 at once'
  expect(() => rateLimit({ policy: '100/1m; 5/1m', cost: 10 })).toThrow(never)
  expect(() => rateLimit({ limiter: new RateLimiter({ policy: '5/1m' }), cost: 10 })).toThrow(never)
  for (const options of [
    { policy: '5/1m token-bucket burst=10', cost: 10 },
    { policy: '0/1m' },
    { policy: () => '5/1m', cost: 10 },
    { limiter: new RateLimiter({ policy: () => '5/1m' }), cost: 10 },
    { policy: [{ quota: 5, window: '1m', key: () => undefined }, '100/1m'], cost: 10 },
  ] as RateLimitOptions[]) {
    rateLimit(options)
  }
})

test('the limiter of a middleware is no property that Object.assign copies', () => {
  const limit = rateLimit({ policy: () => '5/1m' })
  expect(typeof Object.assign(() => {}, limit).limiterFor).toBe('function')
  expect(rateLimit({ policy: '7/1m' }).limiter.policy[0].quota).toBe(7)
})

describe('a key of the service that is the address of the connection', () => {
  const forwarded = { 'X-Forwarded-For': '203.0.113.7' }
  const proxyWarnings = async (options: RateLimitOptions, fields = forwarded) => {
    const limit = rateLimit({ policy: '100/1m', ...options })
    for (let i = 0; i < 2; i++) await ask([limit], fields)
    return warned.textsOf('SPILLWAY_PROXY').length
  }

  test('causes one warning if requests are forwarded', async () => {
    expect(await proxyWarnings({ key: req => req.ip })).toBe(1)
  })

  test('also where proxies were named, but not to the key', async () => {
    expect(await proxyWarnings({ key: req => req.socket.remoteAddress, proxies: 1 })).toBe(1)
  })

  test.each<[string, RateLimitOptions]>([
    ['if it is another text', { key: () => 'ann' }],
    ['if it is from addressKey', { key: addressKey({ proxies: 1 }), proxies: 1 }],
    ['if clients connect directly', { key: req => req.ip, proxies: 0 }],
  ])('causes none %s', async (_, options) => {
    expect(await proxyWarnings(options)).toBe(0)
  })

  test('causes none if nothing was forwarded', async () => {
    expect(await proxyWarnings({ key: req => req.ip }, {} as typeof forwarded)).toBe(0)
  })
})

test('a comma between limits is answered with what to write', () => {
  expect(() => rateLimit({ policy: '10/1s, 1000/1h' })).toThrow('did you mean "10/1s; 1000/1h"?')
})

test('a clock, a failOpen and an addressKey that was not called are answered with what to write', async () => {
  expect(() => rateLimit({ clock: {} } as never)).toThrow('the clock is an option of the store')
  expect(() => rateLimit({ failOpen: true } as never)).toThrow("'local', 'open' or 'closed'")
  const app = express().use(rateLimit({ key: addressKey as never }))
  app.use((error: Error, _req: unknown, res: express.Response, _next: unknown) => void res.send(error.message))
  expect((await request(app).get('/')).text).toContain('addressKey: given a request or a context instead of options')
})

describe('clientAddress', () => {
  test('gives all middlewares of an app one setting, whose faults cause one warning', async () => {
    const clients = clientAddress({ proxies: 1, deny: ['203.0.113.7'] })
    const limit = rateLimit({ policy: '100/1m', clients })
    const places = concurrencyLimit({ permits: 5, key: 'address', clients })
    const load = shed({ load: { level: 0, reason: 'none' }, priority: () => 0, clients })
    expect(await ask([limit], { 'X-Forwarded-For': '203.0.113.7' })).toBe(403)
    expect(await ask([places], { 'X-Forwarded-For': '203.0.113.7' })).toBe(403)
    expect(await ask([limit, places, load], { 'X-Forwarded-For': '203.0.113.8' })).toBe(401)
    expect((await limit.limiter.peek('203.0.113.8', 0)).remaining).toBe(99)
    // No field at all, for each of the three.
    await ask([limit, places, load])
    expect(warned.textsOf('SPILLWAY_PROXY_HEADER')).toEqual([expect.stringMatching(/^clientAddress: the field/)])
    expect(clients.options).toEqual({ proxies: 1, deny: ['203.0.113.7'] })
  })

  test('takes the place of the single options', () => {
    const clients = clientAddress({ proxies: 1 })
    expect(() => rateLimit({ clients, proxies: 1 })).toThrow('rateLimit: given both clients and proxies')
    expect(() => addressKey({ clients, ipv6Subnet: 64 })).toThrow('addressKey: given both clients and ipv6Subnet')
    expect(() => rateLimit({ clients: { options: {} } })).toThrow('expected what clientAddress gives')
    class Clients {
      readonly options = {}
    }
    expect(() => rateLimit({ clients: new Clients() })).toThrow(
      'of another copy of spillway (npm ls spillway lists them)',
    )
    expect(clients.constructor.name).toBe(Clients.name)
    expect(() => clientAddress({ deny: ['x'] })).toThrow(/^clientAddress: deny/)
  })
})

test('limitMessages gives a socket its own emit back', () => {
  for (const own of [false, true]) {
    const socket = new EventEmitter()
    const before = own ? Object.assign(socket, { emit: socket.emit.bind(socket) }).emit : undefined
    for (let i = 0; i < 3; i++) limitMessages(socket, { policy: '1/1m' })()
    expect(Object.getOwnPropertyDescriptor(socket, 'emit')?.value).toBe(before)
    const heard: unknown[] = []
    socket.on('message', data => heard.push(data))
    for (const data of [1, 2, 3]) socket.emit('message', data)
    expect(heard).toEqual([1, 2, 3])
  }
})
