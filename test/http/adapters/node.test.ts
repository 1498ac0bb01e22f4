import type { IncomingMessage, ServerResponse } from 'node:http'
import { pipeline, Readable } from 'node:stream'
import { expect, test } from '@jest/globals'
import request from 'supertest'
import { type ConcurrencyLimit, concurrencyLimit, shed } from '../../../src/http/adapters/node.js'
import { adapterContract } from '../../support/adapter-contract.js'
import { describeConcurrencyLimit } from '../../support/concurrency-contract.js'
import { nodeAdapter } from './node-service.js'

adapterContract('node:http', nodeAdapter)

describeConcurrencyLimit('node:http', {
  whole: true,
  concurrencyLimit,
  header: (req, name) => (req as IncomingMessage).headers[name] as string | undefined,
  told: res => [(res as ServerResponse).statusCode, (res as ServerResponse).getHeader('retry-after')?.toString()],
  answer: (res, text) => (res as ServerResponse).end(text),
  serve: (limits, handle) => (req, res) => {
    const served = async () => {
      for (const limit of limits) if (!(await (limit as ConcurrencyLimit)(req, res))) return
      const answer = await handle(req.url ?? '')
      if (answer instanceof Readable) pipeline(answer, res, () => {})
      else res.end(answer)
    }
    served().catch(() => {
      res.statusCode = 500
      res.end()
    })
  },
})

test('node:http: shed refuses the least important requests first, and lets the others go on', async () => {
  const limit = shed({
    load: { level: 1.5, reason: 'custom' },
    priority: req => Number(req.headers.priority),
  })
  const app = async (req: IncomingMessage, res: ServerResponse) => {
    if (await limit(req, res)) res.end('done')
  }
  const answers = []
  for (const priority of ['0', '2', '3']) answers.push(await request(app).get('/').set({ priority }))
  expect(answers.map(({ status, headers }) => [status, headers['retry-after']])).toEqual([
    [200, undefined],
    [200, undefined],
    [503, '1'],
  ])
})
