import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import rateLimit, { addressKey, type RateLimitOptions } from '../../../src/http/adapters/fastify.js'
import type { Framework } from '../../../src/http/framework.js'
import { type LimiterAccess, RateLimitGate } from '../../../src/http/rate-limit/rate-limit.js'
import type { Adapter } from '../../support/adapter-contract.js'

/** A version of Fastify. */
export type MakeFastify = (options: { trustProxy: string | boolean; http2?: true }) => FastifyInstance

/** The parts of Fastify that register plugins. */
const OPTIONS = new WeakMap<LimiterAccess, RateLimitOptions>()

/**
 * A version of Fastify, as the contract of the adapters needs it. A plugin does not expose its limiter, so the tests
 * inspect one that is built from the same options.
 */
export function fastifyAdapter(fastify: MakeFastify): Adapter {
  return {
    addressKey,
    trustsAnybody: 'Fastify takes the leftmost address',
    rateLimit(options) {
      const limiters = RateLimitGate.of(options ?? {}, {} as Framework<unknown, unknown>).equip({})
      OPTIONS.set(limiters, options as RateLimitOptions)
      return limiters
    },
    header: (request, name) => (request as FastifyRequest).headers[name] as string | undefined,
    status: reply => (reply as FastifyReply).statusCode,
    setStatus(reply, status) {
      ;(reply as FastifyReply).code(status)
    },
    responseHeader: (reply, name) => (reply as FastifyReply).getHeader(name)?.toString(),
    decision: request => (request as FastifyRequest).rateLimit,
    answer: (reply, text) => (reply as FastifyReply).send(text),
    serve({ limiters, trustProxy, http2, before, handle }) {
      const app = fastify({
        trustProxy: trustProxy === 'anybody' || (trustProxy ? '127.0.0.1' : false),
        ...(http2 && { http2 }),
      })
      app.addHook('onRequest', async (_, reply) => before?.(reply.raw))
      for (const limiter of limiters) app.register(rateLimit, OPTIONS.get(limiter) ?? {})
      app.setErrorHandler((error: { code?: string; message: string }, _request, reply) => {
        reply.code(500).send({ code: error.code, message: error.message })
      })
      app.all('/*', async (request, reply) => {
        const stream = await handle?.(request, reply)
        if (stream) return reply.send(stream)
        const body = JSON.stringify(request.rateLimit ?? null)
        if (!reply.raw.headersSent) return reply.type('application/json').send(body)
        reply.hijack()
        reply.raw.end(body)
      })
      const ready = app.ready()
      return (req, res) => void ready.then(() => app.routing(req, res))
    },
  }
}
