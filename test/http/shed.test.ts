import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from '@jest/globals'
import express, { type Request } from 'express'
import Koa, { type Context } from 'koa'
import { shed as shedExpress } from '../../src/http/adapters/express.js'
import { shed as shedKoa } from '../../src/http/adapters/koa.js'
import { GONE } from '../../src/http/framework.js'
import type { LoadLevel } from '../../src/http/load.js'
import { ShedGate, type ShedOptions } from '../../src/http/shed.js'
import { warnings } from '../support/warnings.js'

const warned = warnings()

const loadOf = (level: number): LoadLevel & { level: number } => ({ level, reason: 'custom' })

describe('the levels', () => {
  const framework = { peer: () => '', requestHeader: () => undefined } as never
  const gate = (options: Omit<ShedOptions<number>, 'priority'>) => {
    const time = { now: 0 }
    const shedding = new ShedGate<number, unknown>({ priority: given => given, ...options }, framework, () => time.now)
    const passes = (given: number) => shedding.answer(given, {}).refusal === undefined
    return { time, passes, open: () => [0, 1, 2, 3].filter(passes) }
  }

  test('close one by one each second while overloaded, the highest number first and 0 never, and open again when calm', () => {
    const load = loadOf(0.5)
    const { time, open } = gate({ load })
    expect(open()).toEqual([0, 1, 2, 3])
    load.level = 1.2
    expect(open()).toEqual([0, 1, 2])
    time.now = 999
    expect(open()).toEqual([0, 1, 2])
    const after: number[][] = []
    for (const now of [1000, 2000, 3000, 4000]) {
      time.now = now
      after.push(open())
    }
    expect(after).toEqual([[0, 1], [0], [0], [0]])
    load.level = 0.9
    time.now = 60_000
    expect(open()).toEqual([0])
    load.level = 0.6
    expect(open()).toEqual([0, 1])
    time.now = 61_000
    expect(open()).toEqual([0, 1, 2])
  })

  test('priorities are rounded down and clamped; a value that is no number is the lowest priority', () => {
    const { passes } = gate({ load: loadOf(2), levels: 3 })
    passes(0)
    expect([-5, 0.9, 1, 1.99].map(passes)).toEqual([true, true, true, true])
    expect([2, 99, Number.POSITIVE_INFINITY, Number.NaN, 'x' as never, undefined as never].map(passes)).toEqual(
      new Array(6).fill(false),
    )
  })

  test('the observer hears of each request', () => {
    const heard: unknown[] = []
    const { passes } = gate({ load: loadOf(2), observer: { waited: event => heard.push(event) } })
    passes(0)
    passes(3)
    const told = { object: 'concurrency', name: 'shed', waitMs: 0 }
    expect(heard).toEqual([
      { ...told, outcome: 'granted' },
      { ...told, outcome: 'timeout' },
    ])
  })
})

describe('an address', () => {
  interface Asked {
    peer?: string
    priority: number
  }
  const framework = {
    name: 'Plain',
    peer: (req: Asked) => req.peer,
    address: (req: Asked) => req.peer,
    trust: () => ({ anybody: 'Plain believes everybody' }),
    requestHeader: () => undefined,
    watch: () => ({ end() {} }),
  } as never
  const gateOf = (options: Partial<ShedOptions<Asked>> = {}) =>
    new ShedGate<Asked, object>({ load: loadOf(2), levels: 2, priority: req => req.priority, ...options }, framework)

  test('on the allow list is never refused; one on the deny list is refused with 403, whatever its priority', () => {
    const gate = gateOf({ allow: ['10.0.0.0/8'], deny: ['203.0.113.0/24'] })
    const statusOf = (req: Asked) => gate.answer(req, {}).refusal?.status
    expect(statusOf({ peer: '192.0.2.1', priority: 1 })).toBe(503)
    expect(statusOf({ peer: '10.1.2.3', priority: 1 })).toBeUndefined()
    expect(statusOf({ peer: '203.0.113.9', priority: 0 })).toBe(403)
    expect(warned.texts).toEqual([expect.stringMatching(/^shed: Plain believes/)])
  })

  test('that is gone with its client ends the request before its priority is asked', () => {
    const unasked = () => {
      throw new Error('nobody should ask this')
    }
    expect(gateOf({ priority: unasked }).answer({ priority: 0 }, {})).toEqual(GONE)
  })

  test.each<[string, object]>([
    ['shed: proxies -1: expected how many stand in front', { proxies: -1 }],
    ['shed: deny: "all": expected an address', { deny: ['all'] }],
    ['shed: allow "10.0.0.1": expected a list', { allow: '10.0.0.1' }],
  ])('%s', (message, wrong) => {
    expect(() => gateOf(wrong)).toThrow(message)
  })
})

const cleanups: Server[] = []
afterEach(() => {
  for (const server of cleanups.splice(0)) server.close()
})

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  cleanups.push(server)
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

const byHeader = (header: string | undefined) => {
  if (header === 'broken') throw new Error('broken')
  return Number(header)
}

describe.each<[string, (load: LoadLevel) => RequestListener]>([
  [
    'express',
    load => {
      const app = express().set('env', 'test')
      app.use(shedExpress({ load, priority: (req: Request) => byHeader(req.get('x-priority')) }))
      return app.get('/', (_req, res) => void res.send('done'))
    },
  ],
  [
    'koa',
    load => {
      const app = new Koa()
      app.silent = true
      app.use(shedKoa({ load, priority: (ctx: Context) => byHeader(ctx.get('x-priority')) }))
      app.use(ctx => {
        ctx.body = 'done'
      })
      return app.callback()
    },
  ],
])('shed of %s', (_, listener) => {
  test('refuses with 503, Retry-After and problem details, passes important requests, and passes errors on', async () => {
    const url = await serve(listener(loadOf(2)))
    const get = (priority: string) => fetch(url, { headers: { 'x-priority': priority, accept: 'application/json' } })
    const passed = await get('0')
    expect([passed.status, await passed.text()]).toEqual([200, 'done'])
    const refused = await get('3')
    expect(refused.status).toBe(503)
    expect(refused.headers.get('retry-after')).toBe('1')
    expect(refused.headers.get('content-type')).toContain('application/problem+json')
    expect(((await refused.json()) as { type: string }).type).toMatch(/#temporary-reduced-capacity$/)
    expect((await get('broken')).status).toBe(500)
  })
})
