import { expect, test } from '@jest/globals'
import { Hono } from 'hono3'
import { concurrencyLimit, rateLimit } from '../../src/http/adapters/hono.js'
import { honoAdapterOf } from '../http/adapters/hono-service.js'
import { adapterContract } from '../support/adapter-contract.js'

adapterContract(
  'Hono 3',
  honoAdapterOf(() => new Hono()),
)

test('Hono 3: a response that the context has not made gets the header fields too', async () => {
  const app = new Hono()
  app.use('*', rateLimit({ policy: '9/1m', key: () => 'k' }) as never)
  app.get('/new', () => new Response('new'))
  app.get('/fetched', () => fetch('data:text/plain,fetched'))
  const answers = []
  for (const path of ['/new', '/fetched']) answers.push(await app.request(path))
  expect(answers.map(({ headers }) => headers.get('ratelimit'))).toEqual(['"9-per-1m";r=8;t=60', '"9-per-1m";r=7;t=60'])
  expect(await Promise.all(answers.map(answer => answer.text()))).toEqual(['new', 'fetched'])
})

test('Hono 3: a place is held until the body has been read, and a request without one is refused', async () => {
  const app = new Hono()
  app.use('*', concurrencyLimit({ permits: 1 }) as never)
  app.get('/', c => c.text('done'))
  const first = await app.request('/')
  expect((await app.request('/')).status).toBe(503)
  await first.text()
  expect((await app.request('/')).status).toBe(200)
})
