import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect, createServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { pipeline, Readable } from 'node:stream'
import { expect, test } from '@jest/globals'
import request from 'supertest'
import { type ConcurrencyLimit, concurrencyLimit, rateLimit, shed } from '../../../src/http/adapters/node.js'
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

test('node:http2: limits, tells, refuses and settles alike, and leaves the decision on the request', async () => {
  const settled: unknown[] = []
  const limit = rateLimit({ policy: '1/1m', settle: (_, res, end) => settled.push([res.statusCode, end]) })
  const server = createServer(async (req, res) => {
    if (await limit(req, res)) res.end(`${req.rateLimit?.remaining} left`)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const get = async () => {
    const stream = client.request({ ':path': '/' }).setEncoding('utf8')
    const [fields] = await once(stream, 'response')
    return [fields[':status'], fields.ratelimit, fields['retry-after'], (await stream.toArray()).join('')]
  }
  expect(await get()).toEqual([200, '"1-per-1m";r=0;t=60', undefined, '0 left'])
  expect(await get()).toEqual([429, '"1-per-1m";r=0;t=60', '60', 'Too many requests: try again in 60 seconds.\n'])
  expect(settled).toEqual([[200, { completed: true, ended: true }]])
  expect((await limit.limiter.peek('127.0.0.1')).allowed).toBe(false)
  client.close()
  await new Promise(resolve => server.close(resolve))
})

test('node:http: shed refuses the least important requests first, and lets the others go on', async () => {
  const limit = shed({
    load: { level: 1.5, reason: 'custom', close() {} },
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
