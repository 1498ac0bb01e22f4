import { describe, expect, test } from '@jest/globals'
import express5, { type Express, type NextFunction, type Request, type Response, Router } from 'express'
import request from 'supertest'
import { concurrencyLimit, rateLimit } from '../../../src/http/adapters/express.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import type { Store } from '../../../src/limiter/store.js'
import { older } from '../../support/older.js'

/** A store that answers later, as one over a network does. */
function lateStore(): Store {
  const store = new MemoryStore()
  return {
    consume: async (charges, cost) => store.consume(charges, cost),
    peek: async (charges, cost) => store.peek(charges, cost),
    refund: async (charges, cost) => store.refund(charges, cost),
    reset: async charges => store.reset(charges),
  }
}

const limiters: [string, () => (req: Request, res: Response, next: NextFunction) => void][] = [
  ['a limiter that decides at once', () => rateLimit({ policy: '9/1m' })],
  ['a limiter that decides later', () => rateLimit({ policy: '9/1m', store: lateStore() })],
  ['a limiter whose options fail', () => rateLimit({ key: () => Promise.reject(new Error('of the options')) })],
  ['a concurrency limit', () => concurrencyLimit({ permits: 9 })],
]

describe.each<[string, () => Express]>([
  ...older('express4', (express4: () => Express): [string, () => Express] => ['Express 4', express4]),
  ['Express 5', express5 as unknown as () => Express],
])('%s: a callback that is given by hand', (_name, create) => {
  const answering = (app: Express) =>
    app.use((error: Error, _req: Request, res: Response, _next: NextFunction) => {
      res.status(500).send(error.message)
    })

  test.each(limiters)('and throws, reaches the error handling of the service: %s', async (_, create1) => {
    const limit = create1()
    const app = create()
    app.use((req, res, _next) => {
      limit(req, res, () => {
        throw new Error('of the callback')
      })
    })
    const { status, text } = await request(answering(app)).get('/')
    expect([status, text]).toEqual([500, 'of the callback'])
  })

  test('may throw in a router and in a route', async () => {
    const limit = rateLimit({ policy: '9/1m' })
    const broken = (req: Request, res: Response) =>
      limit(req, res, () => {
        throw new Error('of the callback')
      })
    const app = create()
      .use('/router', Router().use(broken))
      .get('/route', (req, res) => void broken(req, res))
    for (const path of ['/router', '/route']) {
      const { status, text } = await request(answering(app)).get(path)
      expect([status, text]).toEqual([500, 'of the callback'])
    }
  })

  test('and throws after it has answered, changes nothing of the answer', async () => {
    const limit = rateLimit({ policy: '9/1m' })
    const app = create()
    app.use((req, res, _next) => {
      limit(req, res, () => {
        res.send('answered')
        throw new Error('too late')
      })
    })
    app.use((_error: Error, _req: Request, _res: Response, _next: NextFunction) => {})
    expect((await request(app).get('/')).text).toBe('answered')
  })

  test('may pass the request on, as ever', async () => {
    const limit = rateLimit({ policy: '1/1m' })
    const app = create()
    app.use((req, res, next) => void limit(req, res, error => next(error)))
    app.use((_req, res) => void res.send('passed'))
    expect((await request(app).get('/')).text).toBe('passed')
    expect((await request(app).get('/')).status).toBe(429)
  })
})
