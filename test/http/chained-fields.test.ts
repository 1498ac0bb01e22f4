import { describe, expect, test } from '@jest/globals'
import express from 'express'
import request from 'supertest'
import { concurrencyLimit, type RateLimitOptions, rateLimit } from '../../src/http/adapters/express.js'

const PLACES = '"default";q=9;qu="concurrent-requests"'

/** RateLimit-Policy and RateLimit of a service behind both kinds of limit, with the rate limit first and last. */
async function fieldsOf(headers: RateLimitOptions['headers']) {
  const orders = [true, false].map(async rateFirst => {
    const limits = [rateLimit({ policy: '5/1m', headers }), concurrencyLimit({ permits: 9 })]
    const app = express().use(...(rateFirst ? limits : limits.reverse()))
    app.get('/', (_req, res) => void res.send('ok'))
    const answer = await request(app).get('/')
    return [answer.get('RateLimit-Policy'), answer.get('RateLimit')]
  })
  return Promise.all(orders)
}

describe('a rate limit and a concurrency limit on one response', () => {
  test('are listed together in draft 8, in the order of the middleware', async () => {
    expect(await fieldsOf(['draft-8'])).toEqual([
      [`"5-per-1m";q=5;w=60, ${PLACES}`, '"5-per-1m";r=4;t=60'],
      [`${PLACES}, "5-per-1m";q=5;w=60`, '"5-per-1m";r=4;t=60'],
    ])
  })

  test('in draft 7, which has no concurrency limits, the rate limit keeps both fields', async () => {
    const fields = ['5;w=60', 'limit=5, remaining=4, reset=60']
    expect(await fieldsOf(['draft-7'])).toEqual([fields, fields])
  })

  test('in draft 6 the rate limit keeps its policy', async () => {
    expect(await fieldsOf(['draft-6'])).toEqual([
      ['5;w=60', undefined],
      ['5;w=60', undefined],
    ])
  })

  test('without fields of the rate limit the concurrency limit has its own', async () => {
    expect(await fieldsOf(['legacy'])).toEqual([
      [PLACES, undefined],
      [PLACES, undefined],
    ])
  })

  test('two concurrency limits of one name have different names, also in a refusal', async () => {
    const app = express().use(concurrencyLimit({ permits: 9 }), concurrencyLimit({ permits: 0 }))
    const answer = await request(app).get('/').set('accept', 'application/json')
    expect(answer.get('RateLimit-Policy')).toBe(`${PLACES}, "default-2";q=0;qu="concurrent-requests"`)
    expect(answer.body['violated-policies']).toEqual(['default-2'])
  })
})
