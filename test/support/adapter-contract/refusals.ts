import { describe, expect, test } from '@jest/globals'
import type { Decision } from '../../../src/limiter/core/decision.js'
import type { World } from './world.js'

/** The state that a handler sees: the decision on the request, and status and wait on the response. */
const SEEN = [true, 429, '60']

/** How a service words its refusals. */
export function refusalsContract(world: World): void {
  const { whole, adapter, limited, serve, get } = world

  describe('a message that is a function', () => {
    test('is called with the decision, after it is on the request and the header fields are set', async () => {
      const seen: unknown[] = []
      const message = (req: unknown, res: unknown, decision: Decision) => {
        seen.push(decision.retryAfterMs)
        if (adapter.returnsResponses) return { wait: decision.retryAfterMs }
        seen.push(adapter.decision(req), adapter.status(res), adapter.responseHeader(res, 'retry-after'))
        seen.push(adapter.responseHeader(res, 'ratelimit'))
        return { wait: decision.retryAfterMs }
      }
      const app = serve(limited({ policy: '1/1m', message }))
      expect([(await get(app)).status, seen]).toEqual([200, []])
      const { status, body, headers } = await get(app)
      expect([status, body, headers['content-type']]).toEqual([
        429,
        { wait: 60_000 },
        'application/json; charset=utf-8',
      ])
      expect(seen[0]).toBe(60_000)
      if (adapter.returnsResponses) return
      expect(seen.slice(2)).toEqual([429, '60', '"1-per-1m";r=0;t=60'])
      expect(seen[1]).toMatchObject({ allowed: false, retryAfterMs: 60_000 })
    })
  })

  describe('a handler', () => {
    const busy = (calls: unknown[]) => (req: unknown, res: unknown, decision: Decision) => {
      if (adapter.returnsResponses) calls.push(SEEN)
      else
        calls.push([
          adapter.decision(req) === decision,
          adapter.status(res),
          adapter.responseHeader(res, 'retry-after'),
        ])
      return adapter.answer(res, `wait ${decision.retryAfterMs} ms`)
    }

    test('writes the refusal, with status, header fields and decision in place', async () => {
      const calls: unknown[] = []
      const app = serve(limited({ policy: '1/1m', handler: busy(calls), message: () => 'not asked' }))
      expect([(await get(app)).status, calls]).toEqual([200, []])
      const answer = await get(app)
      const { status, headers } = answer
      expect([status, world.said(answer), headers['retry-after'], headers['cache-control']]).toEqual([
        429,
        'wait 60000 ms',
        '60',
        'no-store',
      ])
      expect(calls).toEqual([SEEN])
      expect(world.handled).toBe(1)
    })

    test('may be asynchronous', async () => {
      const handler = async (_: unknown, res: unknown) => {
        await new Promise(resolve => setImmediate(resolve))
        return adapter.answer(res, 'later')
      }
      const answer = await get(serve(limited({ policy: '0/1m', handler, statusCode: 420 })))
      expect([answer.status, world.said(answer)]).toEqual([420, 'later'])
    })

    test.each([
      [
        'throws',
        () => {
          throw new Error('boom')
        },
      ],
      ['rejects', () => Promise.reject(new Error('boom'))],
    ] as const)(
      'that %s is an error for the service, without the status and the wait of a refusal',
      async (_, handler) => {
        const { status, body, headers } = await get(serve(limited({ policy: '0/1m', handler })))
        expect([status, body.message, headers['retry-after']]).toEqual([500, 'boom', undefined])
      },
    )

    whole.test('is not called for an address on the deny list', async () => {
      const calls: unknown[] = []
      const { status } = await get(serve(limited({ deny: ['127.0.0.0/8'], handler: busy(calls) })))
      expect([status, calls]).toEqual([403, []])
    })
  })
}
