// A plain function from Request to Response, served by @hono/node-server.
import { getRequestListener } from '@hono/node-server'

/** @type {import('../http.mjs').Service} */
export async function service(limiter, plan) {
  if (limiter === 'fields by hand') {
    return getRequestListener(async () => {
      const response = new Response('hello')
      plan.setFields((name, value) => response.headers.set(name, value))
      return response
    })
  }
  if (limiter !== 'spillway') return getRequestListener(async () => new Response('hello'))
  const { rateLimit } = await plan.ours('fetch')
  const limit = rateLimit(await plan.ourOptions())
  return getRequestListener(async (request, env) => {
    const { incoming } = /** @type {import('@hono/node-server').HttpBindings} */ (env)
    const { refusal, apply } = await limit(request, { address: incoming.socket.remoteAddress })
    return refusal ?? apply(new Response('hello'))
  })
}
