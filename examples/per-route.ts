// A limit for the whole service, and stricter ones where it matters: each with a name of its own, so that they are
// counted separately.
//
//   node --import tsx examples/per-route.ts
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { rateLimit } from 'spillway/express'

const app = express()
app.use(rateLimit({ policy: '100/1m' }))
app.get('/', (_req, res) => {
  res.send('hello\n')
})

// A burst of three, then one every ten seconds. Clients that continue are blocked.
const login = rateLimit({ name: 'login', policy: '6/1m token-bucket burst=3', block: { after: 10, for: '10m' } })
app.post('/login', login, (_req, res) => {
  res.send('welcome\n')
})

// Requests that cost more spend more of the same quota.
const reports = rateLimit({ name: 'reports', policy: '10/1m', cost: req => (req.query.full === undefined ? 1 : 5) })
app.get('/report', reports, (req, res) => {
  res.send(`a report, ${req.rateLimit?.remaining} units left\n`)
})

const server = app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1')
await once(server, 'listening')
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
console.log(`Listening on ${url}/`)
console.log(`Try:  for i in $(seq 5); do curl -s -i -X POST ${url}/login | head -1; done`)
console.log(`      for i in 1 2 3; do curl -i "${url}/report?full"; done`)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => server.close())
