// A handler for the edge, limited to 10 requests in any 10 seconds for each client, in all locations together: state in
// Redis over HTTP. It needs nothing of Node; here Node serves it.
//
//   UPSTASH_REDIS_REST_URL=… UPSTASH_REDIS_REST_TOKEN=… node --import tsx examples/edge.ts
import type { AddressInfo } from 'node:net'
import { type HttpBindings, serve } from '@hono/node-server'
import { Redis } from '@upstash/redis'
import { RedisStore } from 'spillway'
import { rateLimit } from 'spillway/fetch'

const limit = rateLimit({
  policy: '10/10s',
  store: new RedisStore(Redis.fromEnv()),
  // The way to the database counts: the default, 50 ms, is for a server nearby.
  deadline: '2s',
})

/**
 * On Cloudflare Workers: `export default { fetch: answer }`. Behind a platform `proxies` says who writes the client's
 * address: docs/running.md#what-stands-in-front.
 */
async function answer(request: Request, env: HttpBindings): Promise<Response> {
  const { refusal, decision, apply } = await limit(request, { socket: env.incoming.socket })
  return refusal ?? apply(new Response(`hello, ${decision?.remaining} left, says ${decision?.source}\n`))
}

const server = serve(
  {
    fetch: (request, env) => answer(request, env as HttpBindings),
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
