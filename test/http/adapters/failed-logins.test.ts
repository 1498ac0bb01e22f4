import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from '@jest/globals'
import express5, { type Express } from 'express'
import type { Redis } from 'ioredis'
import Koa3 from 'koa'
import { rateLimit } from '../../../src/http/adapters/express.js'
import { rateLimit as koaRateLimit } from '../../../src/http/adapters/koa.js'
import { RedisStore } from '../../../src/index.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import type { Store } from '../../../src/limiter/store.js'
import { ofCases } from '../../support/cases.js'
import { eventually } from '../../support/eventually.js'
import { older } from '../../support/older.js'
import { type Random, randomFrom } from '../../support/random.js'
import { rawClient } from '../../support/raw-client.js'
import { testRedis } from '../../support/test-redis.js'

/** The program of a user who has not read the README, and the result of an attack on it. */
interface Login {
  readonly app: RequestListener
  readonly tally: { tried: number; inFlight: number; mostInFlight: number }
}

/** Password checks as services write them: asynchronous, and some throw instead of answering. */
const check = async (tally: Login['tally'], random: Random) => {
  tally.tried++
  const ms = random.pick([0, 0, 1, 5])
  // Real time, in which clients leave.
  if (ms > 0) await sleep(ms)
}
/** A request whose client was gone when it came is over. */
const arrive = (tally: Login['tally'], address: string | undefined) => {
  if (address === undefined) return
  tally.mostInFlight = Math.max(tally.mostInFlight, ++tally.inFlight)
}

function expressLogin(create: () => Express, store: Store, random: Random): Login {
  const tally = { tried: 0, inFlight: 0, mostInFlight: 0 }
  const app = create()
  app.use((req, _res, next) => {
    arrive(tally, req.socket.remoteAddress)
    next()
  })
  app.use(rateLimit({ ...limitOf(tally, store), settle: (_req, res) => costOf(res.statusCode, tally, store) }))
  app.use((_req, res, next) => {
    check(tally, random)
      .then(() => {
        if (random.integer(0, 1) === 0) res.status(401).send('wrong')
        else next(Object.assign(new Error('wrong'), { status: 401 }))
      })
      .catch(next)
  })
  return { app, tally }
}

/** Five failed logins; a request that is refused is no longer in flight. */
function limitOf(tally: Login['tally'], store: Store) {
  return {
    policy: '5/15m',
    cost: 0,
    key: () => 'mallory',
    message: () => {
      tally.inFlight--
      return 'no more'
    },
    deadline: '5s',
    store,
  } as const
}

/** A request whose charge is on its way to the store is still in flight. */
function costOf(status: number, tally: Login['tally'], store: Store): number {
  const charged = async () => {
    await turn()
    // Over the same connection, behind the charge.
    if (store instanceof RedisStore) await (store.client as unknown as Redis).ping()
    tally.inFlight--
  }
  void charged()
  return status === 401 ? 1 : 0
}

function koaLogin(Koa: new () => Koa3, store: Store, random: Random): Login {
  const tally = { tried: 0, inFlight: 0, mostInFlight: 0 }
  const app = new Koa()
  app.silent = true
  app.use((ctx, next) => {
    arrive(tally, ctx.req.socket.remoteAddress)
    return next()
  })
  app.use(koaRateLimit({ ...limitOf(tally, store), settle: ctx => costOf(ctx.status, tally, store) }))
  app.use(async ctx => {
    await check(tally, random)
    if (random.integer(0, 1) === 0) ctx.throw(401)
    ctx.status = 401
  })
  return { app: app.callback(), tally }
}

/** Sends passwords for as long as it may, and ends its connections in every way. */
async function attack(port: number, random: Random, connections: number): Promise<void> {
  for (let i = 0; i < connections; i++) {
    const client = await rawClient(port, { reads: random.integer(0, 3) > 0 })
    client.send(...Array.from({ length: random.integer(1, 4) }, () => '/login'))
    // Some leave at once, some while their passwords are checked.
    if (random.integer(0, 1) === 1) await sleep(random.pick([0, 1, 3, 10]))
    const way = random.integer(0, 2)
    if (way === 0) client.socket.end()
    else if (way === 1) client.socket.resetAndDestroy()
    else client.leave()
    if (way === 0) setTimeout(() => client.leave(), 20)
  }
}

const redis = testRedis()

type MakeLogin = (store: Store, random: Random) => Login
const services: [string, MakeLogin][] = [
  ...older('express4', (express4: () => Express): [string, MakeLogin] => [
    'Express 4',
    (store, random) => expressLogin(express4, store, random),
  ]),
  ['Express 5', (store, random) => expressLogin(express5 as unknown as () => Express, store, random)],
  ...older('koa2', (Koa2: new () => Koa3): [string, MakeLogin] => [
    'Koa 2',
    (store, random) => koaLogin(Koa2, store, random),
  ]),
  ['Koa 3', (store, random) => koaLogin(Koa3, store, random)],
]

describe.each(services)('%s: failed logins only', (name, login) => {
  test.each(['memory', 'Redis'])(
    'in %s: a client that ends requests early can try at most 5 wrong passwords and those in flight',
    async where => {
      for (let seed = 1; seed <= ofCases(3); seed++) {
        const random = randomFrom(`${name} ${where} ${seed}`)
        const store =
          where === 'memory' ? new MemoryStore() : new RedisStore(redis.client(), { prefix: `${name}-${seed}` })
        const { app, tally } = login(store, random)
        const server = createServer(app)
        await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
        const { port } = server.address() as AddressInfo
        await attack(port, random, 40)
        await eventually('all have ended', async () => tally.inFlight === 0)
        // When the last one was let in, at most four had been charged.
        expect(tally.tried).toBeGreaterThanOrEqual(5)
        expect(tally.tried).toBeLessThanOrEqual(4 + tally.mostInFlight)
        const before = tally.tried
        const client = await rawClient(port)
        client.send('/login')
        await eventually('it is refused', async () => client.received.startsWith('HTTP/1.1 429'))
        expect(tally.tried).toBe(before)
        client.leave()
        await new Promise(resolve => server.close(resolve))
      }
    },
    60_000,
  )
})
