import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pipeline } from 'node:stream'
import { expect, test } from '@jest/globals'
import type { Application, NextFunction, Request, Response } from 'express'
import { type ConcurrencyLimit, concurrencyLimit, rateLimit } from '../../../src/http/adapters/express.js'
import { describeConcurrencyLimit } from '../../support/concurrency-contract.js'
import { eventually } from '../../support/eventually.js'

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
  /** Asks a handler that breaks off. Gives the ends that `settle` was told, and asks again. */
  async function broken(handler: (req: Request, res: Response) => void) {
    const app = express()
    app.set('env', 'test')
    const ends: unknown[] = []
    app.use(concurrencyLimit({ permits: 1, abandonAfter: '100ms' }))
    app.use(rateLimit({ policy: '99/1m', key: () => 'k', settle: (_req, _res, end) => ends.push(end) }))
    app.get('/broken', handler)
    app.get('/', (_req, res) => void res.end())
    const server = createServer(app).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    await expect(fetch(`${url}/broken`).then(response => response.text())).rejects.toThrow()
    const close = async () => {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    }
    return { ends, close, ask: async () => (await fetch(url)).status }
  }

  test(`${name}: the place of a handler that destroys the response is free at once`, async () => {
    const { ends, close, ask } = await broken((_, res) => void res.destroy())
    expect(await ask()).toBe(200)
    expect(ends[0]).toEqual({ completed: false, ended: true })
    await close()
  })

  test.each<[string, (req: Request, res: Response) => void]>([
    [
      'throws after the first write, at which Express destroys the connection,',
      (_, res) => {
        res.write('x')
        throw new Error('broken')
      },
    ],
    ['destroys the connection', req => void req.socket.destroy()],
  ])(`${name}: the place of a handler that %s is free after abandonAfter`, async (_, handler) => {
    const { close, ask } = await broken(handler)
    expect(await ask()).toBe(503)
    await eventually('it is free', async () => (await ask()) === 200)
    await close()
  })
}
