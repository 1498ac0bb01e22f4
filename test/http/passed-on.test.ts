import { AsyncLocalStorage } from 'node:async_hooks'
import { expect, test } from '@jest/globals'
import express from 'express'
import Koa from 'koa'
import request from 'supertest'
import { rateLimit } from '../../src/http/adapters/express.js'
import { rateLimit as koaRateLimit } from '../../src/http/adapters/koa.js'
import { rateLimit as dropIn } from '../../src/replacing/express-rate-limit/index.js'

test('each request keeps the asynchronous context in which it was decided', async () => {
  const context = new AsyncLocalStorage<string>()
  const app = express()
  app.use((req, _res, next) => context.run(String(req.query.id), next))
  app.use(rateLimit({ policy: '1000/1m' }))
  app.get('/', (_req, res) => void res.send(context.getStore()))
  const ids = Array.from({ length: 20 }, (_, i) => `request ${i}`)
  const server = app.listen(0)
  const answers = await Promise.all(ids.map(id => request(server).get('/').query({ id })))
  server.close()
  expect(answers.map(({ text }) => text)).toEqual(ids)
})

test.each([
  ['spillway/express', rateLimit({ policy: '1000/1m' })],
  ['spillway/express-rate-limit', dropIn({ limit: 1000 })],
])('%s passes on a request that is allowed in memory before the middleware returns', async (_, limiter) => {
  const passedOn: boolean[] = []
  const app = express()
  app.use((req, res, next) => {
    let passed = false
    void limiter(req, res, error => {
      passed = true
      next(error)
    })
    passedOn.push(passed)
  })
  app.get('/', (_req, res) => void res.send('hello'))
  await request(app).get('/').expect(200, 'hello')
  expect(passedOn).toEqual([true])
})

test('spillway/koa passes on a request that is allowed in memory in the same turn of the event loop', async () => {
  const order: string[] = []
  const app = new Koa()
  app.use((_ctx, next) => {
    setImmediate(() => order.push('next turn'))
    return next()
  })
  app.use(koaRateLimit({ policy: '1000/1m' }))
  app.use(async ctx => {
    order.push('handler')
    await new Promise(resolve => setImmediate(resolve))
    ctx.body = 'hello'
  })
  await request(app.callback()).get('/').expect(200, 'hello')
  expect(order).toEqual(['handler', 'next turn'])
})
