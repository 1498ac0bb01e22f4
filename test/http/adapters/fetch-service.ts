import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { getRequestListener } from '@hono/node-server'
import { addressKey, type RateLimit, rateLimit } from '../../../src/http/adapters/fetch.js'
import type { Decision } from '../../../src/limiter/core/decision.js'
import type { Adapter } from '../../support/adapter-contract.js'

/** Properties that the handler of the service sets for a response that does not exist yet. */
interface Draft {
  status: number
}

const DECISIONS = new WeakMap<object, Decision | undefined>()

/** Handlers that turn a Request into a Response, served by Node as a framework for them does it. */
export const fetchAdapter: Adapter = {
  rateLimit: options => rateLimit(options as Parameters<typeof rateLimit>[0]),
  addressKey,
  returnsResponses: true,
  header: (request, name) => (request as Request).headers.get(name) ?? undefined,
  status: res => (res as Draft).status,
  setStatus(res, status) {
    ;(res as Draft).status = status
  },
  responseHeader: (res, name) => (res as Response).headers.get(name) ?? undefined,
  decision: request => DECISIONS.get(request as Request),
  answer: (_, text) => new Response(text),
  serve({ limiters, trustProxy, before, handle }) {
    const answerTo = async (request: Request, incoming: IncomingMessage): Promise<Response> => {
      const forwarded = request.headers.get('x-forwarded-for')?.split(',').at(-1)?.trim()
      const { socket } = incoming
      const peer = trustProxy && forwarded ? { address: forwarded, socket } : { socket }
      let apply = (response: Response) => response
      try {
        for (const limit of limiters as RateLimit[]) {
          const limited = await limit(request, peer)
          DECISIONS.set(request, limited.decision)
          if (limited.refusal) return limited.refusal
          apply = limited.apply
        }
        const draft: Draft = { status: 200 }
        const stream = await handle?.(request, draft)
        if (stream) return apply(new Response(Readable.toWeb(stream) as ReadableStream, draft))
        const headers = { 'content-type': 'application/json' }
        return apply(new Response(JSON.stringify(DECISIONS.get(request) ?? null), { status: draft.status, headers }))
      } catch (error) {
        const { code, message } = error as { code?: string; message?: string }
        return apply(Response.json({ code, message }, { status: 500 }))
      }
    }
    const listener = getRequestListener(
      (request, env) => answerTo(request, (env as { incoming: IncomingMessage }).incoming),
      { overrideGlobalObjects: false },
    )
    return (incoming, outgoing) => {
      before?.(outgoing)
      void listener(incoming, outgoing)
    }
  },
}
