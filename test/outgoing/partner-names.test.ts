import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { PolicyError, TimeoutError } from '../../src/limiter/core/errors.js'
import { politeFetch } from '../../src/outgoing/index.js'
import { PartnerServer } from './partner-server.js'

const LIMIT = { rate: 2, interval: '10s' }

describe('without `partner`, a key of `limits`', () => {
  let partner: PartnerServer
  beforeEach(async () => {
    partner = await PartnerServer.start()
  })
  afterEach(() => partner.stop())

  test.each<[string, (origin: string) => string]>([
    ['the origin', origin => origin],
    ['a slash at its end', origin => `${origin}/`],
    ['capitals', origin => origin.toUpperCase()],
  ])('limits the calls to its origin: %s', async (_, keyOf) => {
    const polite = politeFetch({ limits: { [keyOf(partner.origin)]: LIMIT }, maxWait: 0 })
    const calls = Array.from({ length: 10 }, () => polite(`${partner.origin}/things`))
    const outcomes = await Promise.allSettled(calls)
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(2)
    expect(partner.requests).toHaveLength(2)
  })

  test('is refused if another one means the same origin', () => {
    const limits = { 'https://a.example': LIMIT, 'HTTPS://A.example:443/': LIMIT }
    expect(() => politeFetch({ limits })).toThrow(PolicyError)
    expect(() => politeFetch({ limits })).toThrow('but limits["https://a.example"] is also "https://a.example"')
  })

  test('a Request of another implementation of fetch is limited too', async () => {
    const polite = politeFetch({ limits: { [partner.origin]: LIMIT }, maxWait: 0, fetch: async () => new Response() })
    const foreign = { url: `${partner.origin}/things`, method: 'GET', headers: {}, body: null } as unknown as Request
    await polite(foreign)
    await polite(foreign)
    await expect(polite(foreign)).rejects.toThrow(TimeoutError)
  })
})

test('with `partner`, keys are names of any kind', () => {
  expect(() => politeFetch({ partner: () => 'a b', limits: { 'a b': LIMIT } })).not.toThrow()
})
