import { describe, expect, test } from '@jest/globals'
import { bodyOf, namesJson, refuse } from '../../src/http/refusal.js'
import type { Verdict } from '../../src/limiter/core/decision.js'
import { parsePolicy } from '../../src/limiter/core/limit.js'
import { decisionOf } from '../../src/limiter/settlement.js'

const JSON_ONLY = 'application/json'
const never = Number.POSITIVE_INFINITY

/** A decision on '10/1s;1000/1h;5/1m' in which the first and the third limit ask to wait. */
function denied(retryAfterMs: number, source: 'memory' | 'closed' = 'memory') {
  const verdicts = parsePolicy('10/1s;1000/1h;5/1m').map(
    (limit, i): Verdict => ({
      limit,
      allowed: i === 1,
      remaining: 0,
      retryAfterMs: i === 1 ? 0 : retryAfterMs,
      resetAfterMs: 60_000,
      delayMs: 0,
    }),
  )
  return decisionOf('secret', 1, verdicts, source, source === 'closed')
}

test.each([
  [1, '1'],
  [999, '1'],
  [1000, '1'],
  [1001, '2'],
  [86_400_000, '86400'],
  [never, undefined],
])('to wait %d ms is Retry-After: %s', (retryAfterMs, seconds) => {
  expect(refuse(denied(retryAfterMs), 429, undefined).fields['Retry-After']).toBe(seconds)
})

test('a client that does not ask for JSON gets one line of text', () => {
  expect(refuse(denied(1500), 429, '*/*')).toEqual({
    status: 429,
    fields: { 'Cache-Control': 'no-store', 'Retry-After': '2' },
    body: { type: 'text/plain; charset=utf-8', text: 'Too many requests: try again in 2 seconds.\n' },
  })
})

test('a client that asks for JSON gets problem details, with the limits that refused', () => {
  const { body, ...rest } = refuse(denied(1500), 429, JSON_ONLY)
  expect(rest).toEqual({
    status: 429,
    fields: { 'Cache-Control': 'no-store', 'Retry-After': '2' },
  })
  expect(body.type).toBe('application/problem+json')
  expect(JSON.parse(body.text)).toEqual({
    type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
    title: 'Request cannot be satisfied as assigned quota has been exceeded',
    status: 429,
    detail: 'Too many requests: try again in 2 seconds.',
    'violated-policies': ['10-per-1s', '5-per-1m'],
    retryAfterMs: 1500,
  })
})

test('a request that can never fit gets this reason, without a time to come back', () => {
  expect(refuse(denied(never), 429, undefined).body.text).toBe(
    'Too many requests: this one costs more than the limit ever allows.\n',
  )
  expect(JSON.parse(refuse(denied(never), 429, JSON_ONLY).body.text)).not.toHaveProperty('retryAfterMs')
})

test('an outage is not the fault of the client: 503, whatever status is set for refusals', () => {
  const { body, ...rest } = refuse(denied(1000, 'closed'), 420, JSON_ONLY)
  expect(rest.status).toBe(503)
  expect(rest.fields['Retry-After']).toBe('1')
  expect(JSON.parse(body.text)).toEqual({
    type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity',
    title: 'Request cannot be satisfied due to temporary server capacity constraints',
    status: 503,
    detail: 'No capacity at the moment: try again in 1 second.',
    'violated-policies': [],
    retryAfterMs: 1000,
  })
})

test('the status of a refusal can be chosen', () => {
  const { status, body } = refuse(denied(1000), 420, JSON_ONLY)
  expect([status, JSON.parse(body.text).status]).toEqual([420, 420])
})

describe('a message of the service', () => {
  test.each([
    ['Slow down', 'text/plain; charset=utf-8', 'Slow down'],
    ['', 'text/plain; charset=utf-8', ''],
    [{ error: 'slow down' }, 'application/json; charset=utf-8', '{"error":"slow down"}'],
    [['a'], 'application/json; charset=utf-8', '["a"]'],
    [null, 'application/json; charset=utf-8', 'null'],
    [42, 'application/json; charset=utf-8', '42'],
  ])('%j is sent as %s', (message, type, body) => {
    expect(bodyOf(message)).toEqual({ type, text: body })
  })

  test('that JSON cannot represent is an error', () => {
    const circular: { self?: unknown } = {}
    circular.self = circular
    for (const message of [circular, 1n, Symbol('x')]) {
      expect(() => bodyOf(message)).toThrow(/^message: given .* JSON cannot represent/)
    }
  })
})

test.each([
  [undefined, false],
  ['', false],
  ['*/*', false],
  ['application/*', false],
  ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', false],
  ['application/json', true],
  ['Application/JSON', true],
  ['application/json; charset=utf-8', true],
  ['text/html, application/json;q=0.5', true],
  ['application/problem+json', true],
  ['application/vnd.api+json', true],
  ['application/json;q=0', false],
  ['application/json; q=0.000', false],
  ['application/json;q=0, application/problem+json', true],
  ['application/json;q=0.001', true],
  ['application/jsonp', false],
  ['json', false],
  ['application/json-seq', false],
])('Accept: %s names JSON: %s', (accept, expected) => {
  expect(namesJson(accept)).toBe(expected)
})
