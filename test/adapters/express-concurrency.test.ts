import express, { type NextFunction, type Request, type Response } from 'express'
import { type ConcurrencyLimit, concurrencyLimit } from '../../src/adapters/express.js'
import { describeConcurrencyLimit } from '../support/concurrency-contract.js'

describeConcurrencyLimit('Express', {
  concurrencyLimit,
  header: (req, name) => (req as Request).get(name),
  serve(limits, handle) {
    const app = express()
    for (const limit of limits) app.use(limit as ConcurrencyLimit)
    app.use(async (req, res) => {
      res.send(await handle(req.url))
    })
    app.use((_error: unknown, _req: Request, res: Response, _next: NextFunction) => {
      res.status(500).end()
    })
    return app
  },
})
