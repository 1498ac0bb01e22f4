import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, test } from '@jest/globals'
import type { Decision } from '../../../src/limiter/core/decision.js'
import type { World } from './world.js'

/** A limiter together with others: its effect on later ones, and the effect of earlier ones on it. */
export function chainsContract(world: World): void {
  const { whole, limited, serve, get, statuses, user } = world

  describe('the decision', () => {
    test('is available to the service', async () => {
      const { body } = await get(serve(limited({ policy: '2/1m;100/1h', name: 'api' })))
      const decision = body as Decision
      expect(decision).toMatchObject({ allowed: true, remaining: 1, key: '127.0.0.1', cost: 1, source: 'memory' })
      expect(decision.verdicts.map(({ limit }) => limit.name)).toEqual(['2-per-1m', '100-per-1h'])
    })

    whole.test('in shadow mode never refuses, but reports what it would have done', async () => {
      const app = serve(limited({ policy: '1/1m', shadow: true }))
      await get(app)
      const { status, body, headers } = await get(app)
      expect([status, body.allowed, body.verdicts[0].allowed]).toEqual([200, true, false])
      expect(headers.ratelimit).toBe('"1-per-1m";r=0;t=60')
      expect(headers).not.toHaveProperty('retry-after')
    })
  })

  describe('several limiters', () => {
    const both = (first: string, second: string) => [
      limited({ policy: first, name: 'first', key: user }),
      limited({ policy: second, name: 'second', key: user }),
    ]

    test('show all their limits; the strictest sets the single fields, and its decision is available', async () => {
      for (const [first, second] of [
        ['100/1h', '5/1m'],
        ['5/1m', '100/1h'],
      ]) {
        const { body, headers } = await get(serve(both(first, second)), { 'x-user': `${first} ${second}` })
        expect(headers['ratelimit-policy'].split(', ').length).toBe(2)
        expect(headers.ratelimit.split(', ').sort()).toEqual(['"100-per-1h";r=99;t=3600', '"5-per-1m";r=4;t=60'])
        expect([headers['x-ratelimit-limit'], headers['x-ratelimit-remaining']]).toEqual(['5', '4'])
        expect(body.limit.name).toBe('5-per-1m')
      }
    })

    whole.test('of one rate have different names in the fields and in the refusal', async () => {
      const app = serve([
        limited({ policy: '3/1m', name: 'first', key: user }),
        limited({ policy: '3/1m', name: 'second', key: user, cost: 2 }),
      ])
      const { headers } = await get(app, { 'x-user': 'eve' })
      expect(headers['ratelimit-policy']).toBe('"3-per-1m";q=3;w=60, "3-per-1m-2";q=3;w=60')
      expect(headers.ratelimit).toBe('"3-per-1m";r=2;t=60, "3-per-1m-2";r=1;t=60')
      const refused = await get(app, { 'x-user': 'eve', accept: 'application/json' })
      expect([refused.status, refused.body['violated-policies']]).toEqual([429, ['3-per-1m-2']])
      expect(refused.headers.ratelimit).toBe('"3-per-1m";r=1;t=60, "3-per-1m-2";r=1;t=60')
    })

    whole.test('refuse when one of them refuses, with its numbers', async () => {
      const app = serve(both('1/1h', '1/1m'))
      await get(app, { 'x-user': 'ann' })
      const first = await get(app, { 'x-user': 'ann' })
      expect([first.status, first.headers['retry-after'], first.headers['x-ratelimit-remaining']]).toEqual([
        429,
        '3600',
        '0',
      ])
      const other = serve(both('9/1h', '1/1m'))
      await get(other, { 'x-user': 'bob' })
      const second = await get(other, { 'x-user': 'bob', accept: 'application/json' })
      expect([second.status, second.headers['retry-after'], second.body['violated-policies']]).toEqual([
        429,
        '60',
        ['1-per-1m'],
      ])
      expect(second.headers.ratelimit).toBe('"9-per-1h";r=7;t=3600, "1-per-1m";r=0;t=60')
      expect(world.handled).toBe(2)
    })
  })

  if (!world.adapter.returnsResponses) {
    describe('a response that has begun', () => {
      const begin = (res: ServerResponse) => {
        res.writeHead(200, { 'content-type': 'application/json' })
        res.flushHeaders()
      }

      test('is not changed by a limiter that allows', async () => {
        const { status, headers } = await get(serve(limited({ policy: '1/1m' }), { before: begin }))
        expect(status).toBe(200)
        expect(headers).not.toHaveProperty('ratelimit')
        expect(world.handled).toBe(1)
      })

      test('is not changed by a limiter that refuses, and the request is not passed on', async () => {
        const end = (res: ServerResponse) => {
          begin(res)
          res.end('null')
        }
        const { status, text } = await get(serve(limited({ policy: '0/1m' }), { before: end }))
        expect([status, text, world.handled]).toEqual([200, 'null', 0])
      })
    })
  }

  test('an error of the service behind it is passed on unchanged, once', async () => {
    const handle = () => {
      throw new Error('of the service')
    }
    const { status, body } = await get(serve(limited({ policy: '5/1m' }), { handle }))
    expect([status, body.message, world.handled]).toEqual([500, 'of the service', 1])
  })

  whole.test('the limiter behind the middleware can be used', async () => {
    const limiter = limited({ policy: '1/1m' })
    const app = serve(limiter)
    expect(await statuses(app, 2)).toEqual([200, 429])
    expect((await limiter.limiter.peek('127.0.0.1')).allowed).toBe(false)
    await limiter.limiter.reset('127.0.0.1')
    expect(await statuses(app, 1)).toEqual([200])
  })

  whole.test('if the policy is a function, there is a limiter for each policy', async () => {
    const limiter = limited({ policy: () => '1/1m' })
    const app = serve(limiter)
    expect(await statuses(app, 2)).toEqual([200, 429])
    expect(() => limiter.limiter).toThrow(/limiterFor\("100\/1m"\)/)
    await limiter.limiterFor('1/1m').reset('127.0.0.1')
    expect(await statuses(app, 1)).toEqual([200])
  })

  whole.test('a hundred requests at once: as many pass as the limit allows', async () => {
    const server = createServer(serve(limited({ policy: '40/1m' })))
    await new Promise<void>(resolve => server.listen(0, resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    const answers = await Promise.all(Array.from({ length: 100 }, async () => (await fetch(url)).status))
    expect(answers.filter(status => status === 200).length).toBe(40)
    expect(world.handled).toBe(40)
    await new Promise(resolve => server.close(resolve))
  })
}
