import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pipeline } from 'node:stream'
import { expect, test } from '@jest/globals'
import type { Application, NextFunction, Request, Response } from 'express'
import { type ConcurrencyLimit, concurrencyLimit, rateLimit } from '../../../src/http/adapters/express.js'
import { describeConcurrencyLimit } from '../../support/concurrency-contract.js'

/** The contract of concurrency limits, for a version of Express. */
export function describeExpressConcurrency(name: string, express: () => Application): void {
  describeConcurrencyLimit(name, {
    concurrencyLimit,
    http1Only: true,
    header: (req, name) => (req as Request).get(name),
    told: res => [(res as Response).statusCode, (res as Response).get('retry-after')],
    answer: (res, text) => (res as Response).send(text),
    serve(limits, handle) {
      const app = express()
      for (const limit of limits) app.use(limit as ConcurrencyLimit)
      app.use((req, res, next) => {
        handle(req.url).then(body => {
          if (typeof body === 'string') res.send(body)
          else pipeline(body, res, () => {})
        }, next)
      })
      app.use((_error: unknown, _req: Request, res: Response, _next: NextFunction) => {
        res.status(500).end()
      })
      return app
    },
  })
}

/** What becomes of a place if the service breaks the exchange off, for a version of Express. */
export function describeBrokenOff(name: string, express: () => Application): void {
  test.each<[string, (req: Request, res: Response) => void]>([
    [
      'throws after the first write',
      (_, res) => {
        res.write('x')
        throw new Error('broken')
      },
    ],
    ['destroys the response', (_, res) => void res.destroy()],
    ['destroys the connection', req => void req.socket.destroy()],
  ])(`${name}: the place of a handler that %s is free at once`, async (_, handler) => {
    const app = express()
    app.set('env', 'test')
    const ends: unknown[] = []
    app.use(concurrencyLimit({ permits: 1 }))
    app.use(rateLimit({ policy: '9/1m', key: () => 'k', settle: (_req, _res, end) => ends.push(end) }))
    app.get('/broken', handler)
    app.get('/', (_req, res) => void res.end())
    const server = createServer(app).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    await expect(fetch(`${url}/broken`).then(response => response.text())).rejects.toThrow()
    expect((await fetch(url)).status).toBe(200)
    expect(ends[0]).toEqual({ completed: false, ended: true })
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
  })
}
