import { type ClientHttp2Session, connect, createServer, type Http2Server } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from '@jest/globals'
import Koa from 'koa'
import { rateLimit } from '../../../src/http/adapters/koa.js'
import { older } from '../../support/older.js'

let server: Http2Server
let client: ClientHttp2Session
afterEach(async () => {
  client.destroy()
  await new Promise(resolve => server.close(resolve))
})

// Express itself cannot serve HTTP/2.
test.each<[string, typeof Koa]>([
  ...older('koa2', (Koa2: typeof Koa): [string, typeof Koa] => ['Koa 2', Koa2]),
  ['Koa 3', Koa],
])('%s over HTTP/2: limits, tells and refuses alike', async (name, KoaVersion) => {
  const app = new KoaVersion()
  app.use(rateLimit({ policy: '1/1m' }))
  app.use(ctx => {
    ctx.body = 'hello'
  })
  server = createServer(app.callback())
  await new Promise<void>(resolve => server.listen(0, resolve))
  client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)

  const passed = await get({ ':path': '/' })
  expect([passed[':status'], passed.ratelimit, passed.body]).toEqual([200, '"1-per-1m";r=0;t=60', 'hello'])
  const refused = await get({ ':path': '/' })
  expect([refused[':status'], refused['retry-after'], refused.body]).toEqual([
    429,
    '60',
    'Too many requests: try again in 60 seconds.\n',
  ])
  // Koa 2 never answers HEAD over HTTP/2, with or without a limiter.
  if (name === 'Koa 2') return
  const head = await get({ ':path': '/', ':method': 'HEAD' })
  expect([head[':status'], head.body]).toEqual([429, ''])
})

function get(headers: Record<string, string>): Promise<Record<string, unknown>> {
  return new Promise((resolve, reject) => {
    const stream = client.request(headers).setEncoding('utf8').on('error', reject)
    let answer: Record<string, unknown> = {}
    let body = ''
    stream.on('response', fields => {
      answer = fields
    })
    stream.on('data', text => {
      body += text
    })
    stream.on('end', () => resolve({ ...answer, body }))
    stream.end()
  })
}
