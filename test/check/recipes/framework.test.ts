import type { ServerResponse } from 'node:http'
import { afterEach, beforeEach, describe } from '@jest/globals'
import { answersContract } from '../../support/adapter-contract/answers.js'
import { refusalsContract } from '../../support/adapter-contract/refusals.js'
import { type Adapter, type Service, World } from '../../support/adapter-contract/world.js'
import { addressKey, type LimitedRequest, type RateLimit, rateLimit } from './node-http.js'

const adapter: Adapter = {
  addressKey,
  rateLimit,
  header: (req, name) => (req as LimitedRequest).headers[name] as string | undefined,
  status: res => (res as ServerResponse).statusCode,
  setStatus(res, status) {
    ;(res as ServerResponse).statusCode = status
  },
  responseHeader: (res, name) => (res as ServerResponse).getHeader(name)?.toString(),
  decision: req => (req as LimitedRequest).rateLimit,
  answer: (res, text) => (res as ServerResponse).end(text),
  serve: service => (req, res) => {
    handle(service, req, res).catch((error: { code?: string; message?: string }) => {
      res.statusCode = 500
      res.setHeader('Content-Type', 'application/json')
      res.end(JSON.stringify({ code: error.code, message: error.message }))
    })
  },
}

async function handle({ limiters, before, handle }: Service, req: LimitedRequest, res: ServerResponse): Promise<void> {
  before?.(res)
  for (const limiter of limiters) if (!(await (limiter as RateLimit)(req, res))) return
  await handle?.(req, res)
  if (!res.headersSent) res.setHeader('Content-Type', 'application/json')
  res.end(JSON.stringify(req.rateLimit ?? null))
}

describe('an adapter that is written by the recipe', () => {
  const world = new World('Node', adapter)
  beforeEach(() => world.open())
  afterEach(() => world.close())
  answersContract(world)
  refusalsContract(world)
})
