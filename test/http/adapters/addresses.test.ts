import { describe, expect, test } from '@jest/globals'
import express, { type Express, type Request } from 'express'
import Koa from 'koa'
import request from 'supertest'
import * as forExpress from '../../../src/http/adapters/express.js'
import * as forKoa from '../../../src/http/adapters/koa.js'
import { older } from '../../support/older.js'
import { warnings } from '../../support/warnings.js'
import { ADDRESSES, ALLOW, DENY } from '../address/corpus.js'

type Options = Pick<forExpress.RateLimitOptions, 'proxies' | 'allow' | 'deny'> & { policy?: string; key?: () => string }
/** Whom the framework itself trusts. */
type Trust = 'nobody' | 'one' | 'anybody'

/** A service that answers with the key that was counted; undefined: the request was not limited. */
type Serve = (trust: Trust, options: Options) => Parameters<typeof request>[0]

const serveExpress =
  (create: () => Express): Serve =>
  (trust, options) => {
    const app = create()
    if (trust !== 'nobody') app.set('trust proxy', trust === 'one' ? 1 : true)
    app.use(forExpress.rateLimit(options))
    app.use((req: Request, res) => {
      res.json({ key: req.rateLimit?.key })
    })
    return app
  }

const serveKoa =
  (Version: typeof Koa): Serve =>
  (trust, options) => {
    const app = new Version({ proxy: trust !== 'nobody', maxIpsCount: trust === 'one' ? 1 : 0 })
    app.use(forKoa.rateLimit(options))
    app.use(ctx => {
      ctx.body = { key: (ctx.state as forKoa.RateLimitState).rateLimit?.key }
    })
    return app.callback()
  }

/** Four, with each verdict among them; all are read in test/http/address/client.test.ts. */
const SOME = ADDRESSES.filter((_, i) => i % 10 === 0)

const warned = warnings()

describe.each<[string, Serve]>([
  ...older('express4', (express4: typeof express): [string, Serve] => ['Express 4', serveExpress(express4)]),
  ['Express 5', serveExpress(express)],
  ...older('koa2', (Koa2: typeof Koa): [string, Serve] => ['Koa 2', serveKoa(Koa2)]),
  ['Koa 3', serveKoa(Koa)],
])('%s', (_name, serve) => {
  const from = (field: string) => ({ 'x-forwarded-for': field })

  test.each<[string, Trust, Options]>([
    ['the framework trusts one proxy', 'one', {}],
    ['the option proxies is 1', 'nobody', { proxies: 1 }],
    ['the option proxies is 1 and the framework trusts anybody', 'anybody', { proxies: 1 }],
    ['the option proxies names the peer', 'nobody', { proxies: ['127.0.0.1'] }],
  ])('where %s, each address is counted and judged in every notation', async (_setting, trust, options) => {
    const counting = serve(trust, { ...options, policy: '100000/1m' })
    const judging = serve(trust, { ...options, policy: '100000/1m', allow: ALLOW, deny: DENY })
    for (const [written, key, verdict] of SOME) {
      const forged = from(`198.51.100.66, ${written}`)
      expect([written, (await request(counting).get('/').set(forged)).body]).toEqual([written, { key }])
      const { status, body } = await request(judging).get('/').set(forged)
      const seen = status === 403 ? 'deny' : body.key === undefined ? 'allow' : 'neither'
      expect([written, seen]).toEqual([written, verdict])
    }
    expect(warned.texts).toEqual([])
  })
})
