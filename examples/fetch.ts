// Handlers that turn a Request into a Response, limited to 10 requests in any 10 seconds for each client, with state in
// this process. Served by Node; Bun.serve and Deno.serve take the same handler.
//
//   node --import tsx examples/fetch.ts
import type { AddressInfo } from 'node:net'
import { type HttpBindings, serve } from '@hono/node-server'
import { type Peer, rateLimit } from 'spillway/fetch'

const limit = rateLimit({ policy: '10/10s' })

async function answer(request: Request, peer: Peer): Promise<Response> {
  const { refusal, decision, apply } = await limit(request, peer)
  return refusal ?? apply(new Response(`hello, ${decision?.remaining} left\n`))
}

const server = serve(
  {
    fetch: (request, env) => answer(request, { socket: (env as HttpBindings).incoming.socket }),
    hostname: '127.0.0.1',
    port: Number(process.env.PORT ?? 3000),
  },
  info => {
    const url = `http://127.0.0.1:${(info as AddressInfo).port}/`
    console.log(`Listening on ${url}`)
    console.log(`Try:  for i in $(seq 12); do curl -s -i ${url} | head -1; done`)
  },
)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => server.close())
