import { inspect } from 'node:util'
import { expect, test } from '@jest/globals'
import express, { type Express, type Request } from 'express'
import request from 'supertest'
import { rateLimit } from '../../../src/http/adapters/express.js'
import { leaveDecision } from '../../../src/http/adapters/express-request.js'
import type { Decision } from '../../../src/limiter/core/decision.js'
import { older } from '../../support/older.js'

const decision = { remaining: 7 } as Decision

test.each<[string, () => Express]>([
  ...older('express4', (express4: () => Express): [string, () => Express] => ['Express 4', express4]),
  ['Express 5', express],
])('%s: a decision of a mounted app is seen by the app around it, and by no other request', async (_name, create) => {
  const inner = create().use(rateLimit({ policy: '9/1m' }))
  const app = create().use('/limited', inner)
  app.use((req, res) => {
    res.json({ left: req.rateLimit?.remaining ?? 'not limited' })
  })
  expect((await request(app).get('/limited')).body).toEqual({ left: 8 })
  expect((await request(app).get('/')).body).toEqual({ left: 'not limited' })
})

test.each<[string, () => Express]>([
  ...older('express4', (express4: () => Express): [string, () => Express] => ['Express 4', express4]),
  ['Express 5', express],
])('%s: the stricter decision survives that a service replaces res.locals', async (_name, create) => {
  const app = create().use(rateLimit({ name: 'strict', policy: '3/1m' }))
  app.use((_req, res, next) => {
    res.locals = { of: 'the service' }
    next()
  })
  app.use(rateLimit({ name: 'loose', policy: '100/1m' }))
  app.use((req, res) => {
    res.json({ left: req.rateLimit?.remaining, locals: res.locals })
  })
  const { body, headers } = await request(app).get('/')
  expect(body).toMatchObject({ left: 2, locals: { of: 'the service' } })
  expect(headers['x-ratelimit-limit']).toBe('3')
})

test('values that are left on a request do not show in its raw header fields', async () => {
  const app = express().use(rateLimit({ policy: '9/1m' }))
  let rawHeaders: unknown
  app.use((req, res) => {
    rawHeaders = req.rawHeaders
    res.json(req.rateLimit)
  })
  expect((await request(app).get('/').set('host', 'test')).body.remaining).toBe(8)
  expect(Reflect.ownKeys(rawHeaders as object)).toEqual(Reflect.ownKeys([...(rawHeaders as string[])]))
  expect(inspect(rawHeaders)).not.toContain('remaining')
})

test('a service may put something else in its place', async () => {
  const app = express().use(rateLimit({ policy: '9/1m' }))
  app.use((req, res) => {
    req.rateLimit = decision
    res.json({ left: req.rateLimit.remaining })
  })
  expect((await request(app).get('/')).body).toEqual({ left: 7 })
})

test('a request that Express has not made gets an own property, and nothing else changes', () => {
  for (const req of [{}, Object.create(null), Object.create({ ip: '203.0.113.7' })] as Request[]) {
    leaveDecision(req, decision)
    expect(Object.keys(req)).toEqual(['rateLimit'])
    expect(req.rateLimit).toBe(decision)
  }
  expect('rateLimit' in {}).toBe(false)
})
