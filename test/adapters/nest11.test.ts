import 'reflect-metadata'
import { describe, expect, jest, test } from '@jest/globals'
import express from 'express'
import request from 'supertest'
import { adapterContract } from '../support/adapter-contract.js'
import { listenerOf, nestAdapter, started } from './nest-service.js'

jest.mock('@nestjs/common', () => jest.requireActual('nest11-common'))
const common: typeof import('@nestjs/common') = jest.requireActual('nest11-common')
const core: typeof import('@nestjs/core') = jest.requireActual('nest11-core')
const { ExpressAdapter } = jest.requireActual<typeof import('@nestjs/platform-express')>('nest11-platform-express')
const { FastifyAdapter } = jest.requireActual<typeof import('@nestjs/platform-fastify')>('nest11-platform-fastify')
const ours = jest.requireActual<typeof import('../../src/adapters/nest.js')>('../../src/adapters/nest.js')

const onExpress = (trustProxy: boolean) => {
  const app = express()
  if (trustProxy) app.set('trust proxy', 1)
  return new ExpressAdapter(app)
}
const onFastify = (trustProxy: boolean) => new FastifyAdapter({ trustProxy: trustProxy && 'loopback' })

adapterContract('NestJS 11 on Express', nestAdapter({ common, core, ours, platform: onExpress }))
adapterContract('NestJS 11 on Fastify', nestAdapter({ common, core, ours, platform: onFastify }))

describe.each([
  ['Express', onExpress],
  ['Fastify', onFastify],
])('the module of NestJS 11 on %s', (_, platform) => {
  const nest = { common, core, ours, platform }

  @ours.RateLimit('1/1m')
  class Each {
    first(): string {
      return 'first'
    }
    second(): string {
      return 'second'
    }
    @ours.SkipRateLimit()
    free(): string {
      return 'free'
    }
    @ours.RateLimit({ policy: '3/1m', message: 'Enough' })
    own(): string {
      return 'own'
    }
  }
  for (const name of ['first', 'second', 'free', 'own'] as const) {
    common.Get(name)(Each.prototype, name, Object.getOwnPropertyDescriptor(Each.prototype, name)!)
  }
  common.Controller()(Each)
  class Plain {
    plain(): string {
      return 'plain'
    }
  }
  common.Get('plain')(Plain.prototype, 'plain', Object.getOwnPropertyDescriptor(Plain.prototype, 'plain')!)
  common.Controller()(Plain)

  function serve(guarded: boolean) {
    class App {}
    const providers = guarded ? [{ provide: core.APP_GUARD, useClass: ours.RateLimitGuard }] : []
    const imports = [ours.RateLimitModule.forRoot({ policy: '2/1m' })]
    common.Module({ imports, controllers: [Each, Plain], providers })(App)
    const app = listenerOf(started(nest, App))
    return async (path: string, count: number) => {
      const all: unknown[] = []
      for (let i = 0; i < count; i++) all.push((await request(app).get(path)).status)
      return all
    }
  }

  test('limits nothing alone', async () => {
    expect(await serve(false)('/first', 3)).toEqual([200, 200, 200])
  })

  test('limits all routes by APP_GUARD, those with a limit of their own apart', async () => {
    const statuses = serve(true)
    expect(await statuses('/plain', 3)).toEqual([200, 200, 429])
    expect(await statuses('/first', 2)).toEqual([200, 429])
    expect(await statuses('/second', 2)).toEqual([200, 429])
    expect(await statuses('/own', 4)).toEqual([200, 200, 200, 429])
    expect(await statuses('/free', 5)).toEqual([200, 200, 200, 200, 200])
  })
})

test('the storage for @nestjs/throttler counts hits and blocks', async () => {
  const storage = new ours.ThrottlerStorage()
  const hit = (blockDuration: number) => storage.increment('key', 60_000, 2, blockDuration, 'default')
  expect(await hit(60_000)).toEqual({ totalHits: 1, timeToExpire: 60, isBlocked: false, timeToBlockExpire: 0 })
  expect((await hit(60_000)).totalHits).toBe(2)
  expect(await hit(120_000)).toMatchObject({ totalHits: 3, isBlocked: true, timeToBlockExpire: 120 })
  expect(await hit(120_000)).toMatchObject({ totalHits: 3, isBlocked: true, timeToBlockExpire: 120 })
})
