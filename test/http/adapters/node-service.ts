import type { IncomingMessage, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream'
import { addressKey, type RateLimit, rateLimit } from '../../../src/http/adapters/node.js'
import type { Adapter } from '../../support/adapter-contract.js'
import { behindProxy, remembering } from './behind-proxy.js'

/** A service over node:http alone, as the contract of the adapters needs it. */
export const nodeAdapter: Adapter = {
  whole: true,
  rateLimit: remembering(rateLimit),
  addressKey,
  header: (req, name) => (req as IncomingMessage).headers[name] as string | undefined,
  status: res => (res as ServerResponse).statusCode,
  setStatus(res, status) {
    ;(res as ServerResponse).statusCode = status
  },
  responseHeader: (res, name) => (res as ServerResponse).getHeader(name)?.toString(),
  decision: req => (req as IncomingMessage).rateLimit,
  answer: (res, text) => (res as ServerResponse).end(text),
  serve({ limiters, trustProxy, before, handle }) {
    const limits = limiters.map(limiter => (trustProxy ? behindProxy(rateLimit, limiter) : (limiter as RateLimit)))
    const served = async (req: IncomingMessage, res: ServerResponse) => {
      before?.(res)
      for (const limit of limits) if (!(await limit(req, res))) return
      const stream = await handle?.(req, res)
      if (stream) return void pipeline(stream, res, () => {})
      if (!res.headersSent) res.setHeader('content-type', 'application/json')
      res.end(JSON.stringify(req.rateLimit ?? null))
    }
    return (req, res) => {
      served(req, res).catch(({ code, message }) => {
        res.statusCode = 500
        res.setHeader('content-type', 'application/json')
        res.end(JSON.stringify({ code, message }))
      })
    }
  },
}
