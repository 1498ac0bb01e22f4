import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { politeFetch } from '../../src/outgoing/index.js'
import { PartnerServer } from './partner-server.js'

let partner: PartnerServer
beforeEach(async () => {
  partner = await PartnerServer.start()
})
afterEach(() => partner.stop())

describe('after a 503', () => {
  test.each(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE', 'put'])('%s is sent again', async method => {
    partner.refuse(503, '0')
    const { status } = await politeFetch({ retries: 1 })(partner.origin, { method })
    expect([status, partner.requests.length]).toEqual([503, 2])
  })

  test.each(['POST', 'PATCH', 'post'])('%s is sent once: the partner may have carried it out', async method => {
    partner.refuse(503, '0')
    const { status } = await politeFetch()(`${partner.origin}/orders`, { method, body: 'order' })
    expect([status, partner.requests.length]).toEqual([503, 1])
    // The other way to give a method.
    await politeFetch()(new Request(partner.origin, { method: method.toUpperCase() }))
    expect(partner.requests).toHaveLength(2)
  })

  test('a POST with an Idempotency-Key is sent again, however its header fields are given', async () => {
    partner.refuse(503, '0')
    const polite = politeFetch({ retries: 1 })
    const headers = { 'Idempotency-Key': '1' }
    await polite(partner.origin, { method: 'POST', body: 'order', headers })
    await polite(new URL(partner.origin), { method: 'POST', headers: new Headers(headers) })
    await polite(new Request(partner.origin, { method: 'POST', headers }))
    expect(partner.requests).toHaveLength(6)
    // Header fields of the second argument replace those of the first.
    await polite(new Request(partner.origin, { method: 'POST', headers }), { headers: {} })
    expect(partner.requests).toHaveLength(7)
  })

  test('retryMethods says which methods, whatever their capitals, and replaces the default', async () => {
    partner.refuse(503, '0')
    const polite = politeFetch({ retries: 1, retryMethods: ['post'] })
    await polite(partner.origin, { method: 'POST', body: 'order' })
    expect(partner.requests).toHaveLength(2)
    await polite(partner.origin)
    await polite(partner.origin, { method: 'PATCH', headers: { 'idempotency-key': '1' } })
    expect(partner.requests).toHaveLength(4)
  })
})

test('after a 429 every method is sent again', async () => {
  partner.refuse(429, '0')
  const polite = politeFetch({ retries: 1, retryMethods: [] })
  for (const method of ['GET', 'POST', 'PATCH', 'DELETE']) await polite(partner.origin, { method })
  expect(partner.requests).toHaveLength(8)
})

test('`signal: null` takes away the signal of a Request, as for fetch', async () => {
  const request = new Request(partner.origin, { signal: AbortSignal.abort() })
  expect((await politeFetch()(request, { signal: null })).status).toBe(200)
})
