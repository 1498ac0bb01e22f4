// Plans: each user has a separate count, and the plan sets the quota. Requests without a user are counted by address.
//
//   node --import tsx examples/per-user.ts
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import express, { type Request } from 'express'
import { addressKey, rateLimit } from 'spillway/express'

// A stand-in for your sessions: it believes the user name in the request.
const userOf = (req: Request) => req.get('x-user')
const byAddress = addressKey()
const planOf = (user: string | undefined) => (user === 'ada' ? 'pro' : user ? 'free' : 'guest')

const POLICIES = {
  pro: '20/10s',
  free: '5/10s',
  guest: '2/10s',
}

const app = express()
app.use(
  rateLimit({
    // With a name, a user who changes the plan keeps the count.
    name: 'per-user',
    key: req => userOf(req) ?? `guest ${byAddress(req)}`,
    policy: req => POLICIES[planOf(userOf(req))],
  }),
)
app.get('/', (req, res) => {
  res.send(`hello ${userOf(req) ?? 'guest'}, ${req.rateLimit?.remaining} left\n`)
})

const server = app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1')
await once(server, 'listening')
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
console.log(`Listening on ${url}`)
console.log(`Try:  curl -i ${url};  curl -i -H 'x-user: bob' ${url};  curl -i -H 'x-user: ada' ${url}`)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => server.close())
