import { expect, test } from '@jest/globals'
import Koa from 'koa'
import request from 'supertest'
import { rateLimit } from '../../../src/http/adapters/koa.js'
import { adapterContract } from '../../support/adapter-contract.js'
import { older } from '../../support/older.js'
import { describeKoaConcurrency } from './koa-concurrency.js'
import { koaAdapter } from './koa-service.js'

adapterContract('Koa 3', koaAdapter(Koa))
describeKoaConcurrency('Koa 3', Koa)

test.each<[string, new () => Koa]>([
  ...older('koa2', (Koa2: new () => Koa): [string, new () => Koa] => ['Koa 2', Koa2]),
  ['Koa 3', Koa],
])('%s: the stricter decision survives that a service replaces ctx.state', async (_name, KoaVersion) => {
  const app = new KoaVersion()
  app.use(rateLimit({ name: 'strict', policy: '3/1m' }))
  app.use((ctx, next) => {
    ctx.state = { of: 'the service' }
    return next()
  })
  app.use(rateLimit({ name: 'loose', policy: '100/1m' }))
  app.use(ctx => {
    ctx.body = { left: ctx.state.rateLimit.remaining, of: ctx.state.of }
  })
  const { body, headers } = await request(app.callback()).get('/')
  expect(body).toEqual({ left: 2, of: 'the service' })
  expect(headers['x-ratelimit-limit']).toBe('3')
})
