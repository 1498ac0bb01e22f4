// Express, limited to 10 requests in any 10 seconds for each client, with state in this process.
//
//   node --import tsx examples/express.ts
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { rateLimit } from 'spillway/express'

const app = express()
app.use(rateLimit({ policy: '10/10s' }))
app.get('/', (req, res) => {
  res.send(`hello, ${req.rateLimit?.remaining} left\n`)
})

const server = app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1')
await once(server, 'listening')
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
console.log(`Listening on ${url}`)
console.log(`Try:  for i in $(seq 12); do curl -s -i ${url} | head -1; done`)
console.log(`      curl -i -H 'Accept: application/json' ${url}`)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => server.close())
