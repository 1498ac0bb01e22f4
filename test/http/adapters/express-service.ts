import { pipeline } from 'node:stream'
import type { Express, NextFunction, Request, Response } from 'express'
import { addressKey, type RateLimit, rateLimit } from '../../../src/http/adapters/express.js'
import type { Adapter } from '../../support/adapter-contract.js'

/** A version of Express, as the contract of the adapters needs it. */
export function expressAdapter(express: () => Express): Adapter {
  return {
    rateLimit,
    addressKey,
    trustsAnybody: 'Express takes the leftmost address',
    http1Only: true,
    header: (req, name) => (req as Request).get(name),
    status: res => (res as Response).statusCode,
    setStatus: (res, status) => void (res as Response).status(status),
    responseHeader: (res, name) => (res as Response).get(name),
    decision: req => (req as Request).rateLimit,
    answer: (res, text) => (res as Response).send(text),
    serve({ limiters, trustProxy, before, handle }) {
      const app = express()
      if (trustProxy) app.set('trust proxy', trustProxy === 'anybody' || 1)
      app.use((_req, res, next) => {
        before?.(res)
        next()
      })
      for (const limiter of limiters) app.use(limiter as RateLimit)
      const handled = async (req: Request, res: Response) => {
        const stream = await handle?.(req, res)
        if (stream) return void pipeline(stream, res, () => {})
        if (!res.headersSent) res.type('json')
        res.end(JSON.stringify(req.rateLimit ?? null))
      }
      app.use((req, res, next) => {
        handled(req, res).catch(next)
      })
      app.use((error: { code?: string; message?: string }, _req: Request, res: Response, _next: NextFunction) => {
        res.status(500).json({ code: error.code, message: error.message })
      })
      return app
    },
  }
}
