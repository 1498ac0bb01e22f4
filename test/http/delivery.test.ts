import { describe, expect, test } from '@jest/globals'
import { type Answer, admit, type Delivery, GONE, PASS, type Reply } from '../../src/http/framework.js'
import type { Decision } from '../../src/limiter/core/decision.js'

interface Exchange {
  status: number
  sent: boolean
  readonly fields: Record<string, string>
  decision?: Decision
  body?: string
}

const port: Delivery<Exchange, Exchange> = {
  leaveDecision(req, decision) {
    req.decision = decision
  },
  isSent: res => res.sent,
  setFields: (res, set) => void Object.assign(res.fields, set),
  removeField(res, name) {
    delete res.fields[name]
  },
  status: res => res.status,
  setStatus(res, status) {
    res.status = status
  },
  write(res, { text }) {
    res.body = text
  },
}

const decision = { allowed: true } as Decision
const fields = { 'RateLimit-Policy': '1', 'Retry-After': '60' }
const ways: [string, <Value>(value: Value) => Value | Promise<Value>][] = [
  ['at once', value => value],
  ['later', value => Promise.resolve(value)],
]

const refusing = (reply: Partial<Reply>): Answer => ({
  decision,
  fields,
  refusal: { status: 429, body: () => ({ type: 'text/plain', text: 'no' }), ...reply },
})

/** Delivers an answer and tells what became of the request. */
async function delivered(answer: Answer | Promise<Answer>, before: Partial<Exchange> = {}) {
  const exchange: Exchange = { status: 200, sent: false, fields: {}, ...before }
  const outcome = await Promise.resolve(exchange)
    .then(exchange => admit({ answer: () => answer }, port, exchange, exchange))
    .catch(error => (error as Error).message)
  return { outcome, ...exchange }
}

describe.each(ways)('an answer that comes %s', (_, given) => {
  test('lets a request pass with its decision and its fields', async () => {
    expect(await delivered(given({ decision, fields, refusal: undefined }))).toEqual({
      outcome: 'passed',
      status: 200,
      sent: false,
      fields,
      decision,
    })
    expect(await delivered(given(PASS))).toEqual({ outcome: 'passed', status: 200, sent: false, fields: {} })
  })

  test('touches nothing when the client has gone', async () => {
    expect(await delivered(given(GONE))).toEqual({ outcome: 'gone', status: 200, sent: false, fields: {} })
  })

  test('refuses with status, fields and body', async () => {
    const refused = { outcome: 'refused', status: 429, sent: false, fields, decision, body: 'no' }
    expect(await delivered(given(refusing({})))).toEqual(refused)
    const body = async () => ({ type: 'text/plain', text: 'no' })
    expect(await delivered(given(refusing({ body })))).toEqual(refused)
  })

  test('leaves the body to a handler that has written its own', async () => {
    const answer = await delivered(given(refusing({ body: () => undefined })))
    expect([answer.outcome, answer.status, answer.body]).toEqual(['refused', 429, undefined])
  })

  test('takes status and Retry-After back when the body cannot be made', async () => {
    const fail = () => {
      throw new Error('boom')
    }
    for (const body of [fail, async () => fail()]) {
      expect(await delivered(given(refusing({ body })), { status: 404 })).toEqual({
        outcome: 'boom',
        status: 404,
        sent: false,
        fields: { 'RateLimit-Policy': '1' },
        decision,
      })
    }
  })

  test('sets nothing on a response that was sent, and asks for no body', async () => {
    let asked = 0
    const body = () => {
      asked++
      return undefined
    }
    expect(await delivered(given(refusing({ body })), { sent: true })).toEqual({
      outcome: 'refused',
      status: 200,
      sent: true,
      fields: {},
      decision,
    })
    const passed = await delivered(given({ decision, fields, refusal: undefined }), { sent: true })
    expect([passed.outcome, passed.fields, asked]).toEqual(['passed', {}, 0])
  })
})

test('a response that is sent while its refusal is written is not touched again', async () => {
  const exchange: Exchange = { status: 200, sent: false, fields: {} }
  const answer = refusing({
    async body() {
      exchange.sent = true
      return { type: 'text/plain', text: 'no' }
    },
  })
  expect(await admit({ answer: () => answer }, port, exchange, exchange)).toBe('refused')
  expect(exchange.body).toBeUndefined()
})

test('a synchronous answer is delivered synchronously, and an error of the gate is thrown', () => {
  const exchange: Exchange = { status: 200, sent: false, fields: {} }
  expect(admit({ answer: () => PASS }, port, exchange, exchange)).toBe('passed')
  const gate = {
    answer(): Answer {
      throw new Error('boom')
    },
  }
  expect(() => admit(gate, port, exchange, exchange)).toThrow('boom')
})
