import { pipeline } from 'node:stream'
import type { Application, NextFunction, Request, Response } from 'express'
import { type ConcurrencyLimit, concurrencyLimit } from '../../src/adapters/express.js'
import { describeConcurrencyLimit } from '../support/concurrency-contract.js'

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
