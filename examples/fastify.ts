// Fastify, limited to 10 requests in any 10 seconds for each client, with state in this process. A login has a limit of
// its own.
//
//   node --import tsx examples/fastify.ts
import type { AddressInfo } from 'node:net'
import fastify from 'fastify'
import rateLimit from 'spillway/fastify'

const app = fastify()
await app.register(rateLimit, { policy: '10/10s' })
app.get('/', async request => `hello, ${request.rateLimit?.remaining} left\n`)
app.post('/login', { config: { rateLimit: { policy: '3/1m' } } }, async () => 'logged in\n')

await app.listen({ port: Number(process.env.PORT ?? 3000), host: '127.0.0.1' })
const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}/`
console.log(`Listening on ${url}`)
console.log(`Try:  for i in $(seq 12); do curl -s -i ${url} | head -1; done`)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => app.close())
