import { AsyncLocalStorage } from 'node:async_hooks'
import { expect, test } from '@jest/globals'
import express from 'express'
import request from 'supertest'
import { rateLimit } from '../../src/adapters/express.js'

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
