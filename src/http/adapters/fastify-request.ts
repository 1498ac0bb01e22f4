import type { FastifyReply, FastifyRequest } from 'fastify'
import { nodePeer } from '../address/client.js'
import type { Delivery, Framework, Trust } from '../framework.js'
import { watchResponse } from '../node-response.js'

/** What functions of the options receive. */
export type FastifyArgs = [request: FastifyRequest, reply: FastifyReply]

/** The framework of one plugin: the trust setting is the same for all requests, and is determined once. */
export function frameworkOf(): Framework<FastifyRequest, FastifyReply, FastifyArgs> {
  let trust: Trust | undefined
  return {
    name: 'Fastify',
    args: (request, reply) => [request, reply],
    address: request => request.ip,
    peer: request => nodePeer(request.raw),
    trust(request) {
      trust ??= trustOf(request)
      return trust
    },
    requestHeader: (request, name) => request.raw.headers[name] as string | undefined,
    watch: reply => watchResponse(reply.raw),
  }
}

/** How an answer is written on a reply. */
export const delivery: Delivery<FastifyRequest, FastifyReply> = {
  leaveDecision(request, decision) {
    request.rateLimit = decision
  },
  isSent: reply => reply.raw.headersSent || reply.sent,
  setFields: (reply, fields) => void reply.headers(fields),
  removeField: (reply, name) => void reply.removeHeader(name),
  status: reply => reply.statusCode,
  setStatus: (reply, status) => void reply.code(status),
  // Fastify adds a charset to the type of every JSON text; problem details have none.
  write: (reply, { type, text }) => void reply.type(type).send(type.includes('charset') ? text : Buffer.from(text)),
}

/** More proxies than any service has in front of it. */
const CHAIN = Array.from({ length: 64 }, (_, i) => `192.0.2.${i}`)

const LEFTMOST: Trust = {
  anybody: 'Fastify takes the leftmost address of X-Forwarded-For (trustProxy: true)',
}

/**
 * Fastify does not expose its option `trustProxy`. A function that trusts all of a long chain of proxies trusts
 * anybody.
 */
export function trustOf(request: { readonly ips?: readonly string[] }): Trust {
  if (request.ips === undefined) return 'nobody'
  const raw = { socket: { remoteAddress: '198.51.100.1' }, headers: { 'x-forwarded-for': CHAIN.join() } }
  const probe: typeof request = Object.create(Object.getPrototypeOf(request), { raw: { value: raw } })
  return (probe.ips ?? []).length > CHAIN.length ? LEFTMOST : 'some'
}

/**
 * The name of a route, from the `config` that Fastify keeps of it, like 'POST /login'. HEAD belongs to GET: Fastify
 * adds it by itself.
 */
export function routeName({ method, url }: { method?: string | readonly string[]; url?: string }): string {
  const methods = new Set([method ?? []].flat().map(name => (name === 'HEAD' ? 'GET' : name)))
  return `${[...methods].join(',')} ${url}`
}
