import express5, { type NextFunction, type Request, type Response } from 'express'
import express4 from 'express4'
import { type ConcurrencyLimit, concurrencyLimit } from '../../src/adapters/express.js'
import { describeConcurrencyLimit } from '../support/concurrency-contract.js'

for (const [name, express] of [
  ['Express 4', express4],
  ['Express 5', express5],
] as const)
  describeConcurrencyLimit(name, {
    concurrencyLimit,
    header: (req, name) => (req as Request).get(name),
    told: res => [(res as Response).statusCode, (res as Response).get('retry-after')],
    answer: (res, text) => (res as Response).send(text),
    serve(limits, handle) {
      const app = express()
      for (const limit of limits) app.use(limit as ConcurrencyLimit)
      app.use((req, res, next) => {
        handle(req.url).then(body => (typeof body === 'string' ? res.send(body) : body.pipe(res)), next)
      })
      app.use((_error: unknown, _req: Request, res: Response, _next: NextFunction) => {
        res.status(500).end()
      })
      return app
    },
  })
