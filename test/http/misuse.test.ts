import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import express from 'express'
import { concurrencyLimit, type RateLimitOptions, rateLimit } from '../../src/http/adapters/express.js'
import { CreationWatch } from '../../src/http/misuse.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { warnings } from '../support/warnings.js'

const warned = warnings()

let handler: express.RequestHandler
let url: string
const app = express().get(
  '/',
  (req, res, next) => handler(req, res, next),
  (_, res) => void res.send('done'),
)
const server = app.listen(0, '127.0.0.1')
beforeAll(async () => {
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

/** Asks the service so many times, and tells how many requests were refused. */
async function refused(asked: express.RequestHandler, count: number): Promise<number> {
  handler = asked
  let refusals = 0
  for (let i = 0; i < count; i++) {
    const answer = await fetch(url)
    await answer.text()
    if (answer.status !== 200) refusals++
  }
  return refusals
}

describe('limiters that are made while requests come', () => {
  const each = (options: RateLimitOptions) => (req: express.Request, res: express.Response, next: () => void) =>
    rateLimit(options)(req, res, next)

  test('do not warn if they share a store, or a limiter', async () => {
    const store = new MemoryStore()
    const { limiter } = rateLimit({ policy: '2/1h', name: 'given' })
    expect(await refused(each({ policy: '2/1m', store }), 110)).toBe(108)
    expect(await refused(each({ limiter }), 110)).toBe(108)
    expect(warned.textsOf('SPILLWAY_CREATED')).toEqual([])
  })

  test('do not warn if they are used again, as those of many tenants', async () => {
    const tenants = Array.from({ length: 10 }, (_, i) => `tenant ${i}`)
    for (let round = 0; round < 11; round++) {
      for (const _ of tenants) {
        const limit = rateLimit({ policy: '9/1h', key: () => 'k' })
        for (let i = 0; i < 2; i++) await refused(limit, 1)
      }
    }
    expect(warned.texts).toEqual([])
  })

  test('do not warn if they were made before any of them decided: those of many routes', async () => {
    const routes = Array.from({ length: 120 }, () => rateLimit({ policy: '7/1m' }))
    for (const limit of routes) await refused(limit, 1)
    expect(warned.texts).toEqual([])
  })

  test('are remembered by kind, as many as any service has', () => {
    for (let i = 0; i < 2000; i++) expect(new CreationWatch(`kind ${i}`).decided()).toBe(false)
    // Another of a known kind is watched.
    expect([new CreationWatch('kind 1999').decided(), new CreationWatch('kind 0').decided()]).toEqual([true, false])
  })

  test('warn once: each has a count of its own, and nothing is limited', async () => {
    expect(await refused(each({ policy: '2/1m' }), 100)).toBe(0)
    expect(warned.texts).toEqual([])
    expect(await refused(each({ policy: '2/1m' }), 110)).toBe(0)
    expect(warned.codes).toEqual(['SPILLWAY_CREATED'])
    expect(warned.texts[0]).toMatch(/^rateLimit: 100 limiters with the same limit were made while requests came, /)
  })
})

test('a concurrency limit whose requests have no key warns once', async () => {
  expect(await refused(concurrencyLimit({ permits: 1, key: () => undefined }), 102)).toBe(0)
  expect(warned.codes).toEqual(['SPILLWAY_NO_KEY'])
  expect(warned.texts[0]).toMatch(/^concurrencyLimit: the first 100 requests all had no key, /)
})
