// node:http without a framework, limited to 10 requests in any 10 seconds for each client.
//
//   node --import tsx examples/node.ts
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { rateLimit } from 'spillway/node'

const limited = rateLimit({ policy: '10/10s' })

const server = createServer(async (req, res) => {
  if (await limited(req, res)) res.end(`hello, ${req.rateLimit?.remaining} left\n`)
})

server.listen(Number(process.env.PORT ?? 3000), '127.0.0.1')
await once(server, 'listening')
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
console.log(`Listening on ${url}`)
console.log(`Try:  for i in $(seq 12); do curl -s -i ${url} | head -1; done`)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => server.close())
