// Hono on Node, limited to 10 requests in any 10 seconds for each client, with state in this process.
//
//   node --import tsx examples/hono.ts
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { rateLimit } from 'spillway/hono'

const app = new Hono()
app.use(rateLimit({ policy: '10/10s' }))
app.get('/', c => c.text(`hello, ${c.get('rateLimit')?.remaining} left\n`))

const server = serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 3000), hostname: '127.0.0.1' })
if (!server.listening) await once(server, 'listening')
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
console.log(`Listening on ${url}`)
console.log(`Try:  for i in $(seq 12); do curl -s -i ${url} | head -1; done`)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => server.close())
