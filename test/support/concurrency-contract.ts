import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { type ClientRequest, createServer, type RequestListener, request, type Server } from 'node:http'
import { connect as connect2, createServer as createServer2, type Http2Server } from 'node:http2'
import type { AddressInfo } from 'node:net'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { createClient } from 'redis'
import type { ConcurrencyControls } from '../../src/http/concurrency/concurrency-limit.js'
import type { ConcurrencyOptions } from '../../src/http/concurrency/options.js'
import { RedisStore } from '../../src/index.js'
import { MemoryStore } from '../../src/limiter/memory/memory-store.js'
import { Semaphore } from '../../src/waiting/semaphore/semaphore.js'
import { ofCases } from './cases.js'
import { eventually } from './eventually.js'
import { wholeFor } from './everywhere.js'
import { resetAtOnce } from './gone-clients.js'
import { type RawClient, rawClient } from './raw-client.js'
import { RedisServer } from './redis-server.js'
import { warnings } from './warnings.js'

type Options = ConcurrencyOptions<[req: unknown, res: unknown]>

/** The parts that the tests of a framework provide. */
export interface ConcurrencyAdapter {
  /** true: over this one, all that src/http decides is tested, over Redis too. */
  whole?: true
  concurrencyLimit(options: Options): ConcurrencyControls
  /**
   * A service that passes each request through the limits and then to `handle`, whose text or stream it answers; errors
   * are 500.
   */
  serve(
    limits: readonly ConcurrencyControls[],
    handle: (url: string) => Promise<string | Readable>,
    over?: { http2: true },
  ): RequestListener
  header(req: unknown, name: string): string | undefined
  /** Status and Retry-After of a response as it stands. */
  told(res: unknown): [status: number, retryAfter: string | undefined]
  /** Answers with a text, as a handler of the framework does; what it returns is returned by the handler. */
  answer(res: unknown, text: string): unknown
  /** true: a limit that is mounted twice is two limits, with places of their own in one process. */
  makesLimitsAnew?: true
  /** true: the framework does not serve HTTP/2. */
  http1Only?: true
}

interface Reply {
  readonly status: number
  readonly headers: Record<string, string | string[] | undefined>
  readonly body: string
}

/** A service whose requests stay inside until the test releases them. */
class Service {
  inside = 0
  most = 0
  /** How many requests have been handled. */
  done = 0
  readonly #letGo: Array<(error?: Error) => void> = []
  #server!: Server | Http2Server

  async start(adapter: ConcurrencyAdapter, limits: readonly ConcurrencyControls[], http2?: true): Promise<this> {
    const handle = async (url: string): Promise<string | Readable> => {
      this.most = Math.max(this.most, ++this.inside)
      try {
        if (!['/quick', '/large', '/endless'].includes(url))
          await new Promise<void>((go, fail) => this.#letGo.push(error => (error ? fail(error) : go())))
      } finally {
        this.inside--
        this.done++
      }
      if (url === '/endless') return createReadStream('/dev/zero')
      return url === '/large' ? 'x'.repeat(5_000_000) : 'done'
    }
    this.#server = http2
      ? createServer2(adapter.serve(limits, handle, { http2 }) as never)
      : createServer(adapter.serve(limits, handle))
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    return this
  }

  /** The one that has been inside longest ends. */
  finish(error?: Error): void {
    this.#letGo.shift()?.(error)
  }

  ask(headers: Record<string, string> = {}, path = '/'): { sent: ClientRequest; reply: Promise<Reply> } {
    const sent = request({ port: this.port, host: '127.0.0.1', path, headers, agent: false })
    const reply = new Promise<Reply>((done, fail) => {
      sent.on('error', fail)
      sent.on('response', async response => {
        let body = ''
        for await (const piece of response) body += piece
        done({ status: response.statusCode as number, headers: response.headers, body })
      })
    })
    reply.catch(() => {})
    sent.end()
    return { sent, reply }
  }

  connect(options?: { reads?: boolean }): Promise<RawClient> {
    return rawClient(this.port, options)
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** The server has noticed the end of every connection. */
  async allGone(): Promise<void> {
    await eventually('no connection', async () => {
      return (await new Promise<number>(done => this.#server.getConnections((_, count) => done(count)))) === 0
    })
  }

  /** All clients go away, and the server has noticed. */
  async dropClients(): Promise<void> {
    ;(this.#server as Server).closeAllConnections()
    await this.allGone()
  }

  async holds(count: number): Promise<void> {
    await eventually(`${count} inside`, async () => this.inside === count)
  }

  async stop(): Promise<void> {
    while (this.#letGo.length > 0) this.finish()
    if ('closeAllConnections' in this.#server) this.#server.closeAllConnections()
    await new Promise(done => this.#server.close(done))
  }
}

/** Lets one request end after the other, whatever their order; their statuses. */
async function oneAfterTheOther(
  service: Service,
  asked: ReadonlyArray<{ readonly reply: Promise<Reply> }>,
): Promise<number[]> {
  const statuses: number[] = []
  for (const { reply } of asked) reply.then(({ status }) => statuses.push(status))
  for (let i = 1; i <= asked.length; i++) {
    await service.holds(1)
    service.finish()
    await eventually('the end of one', async () => statuses.length === i)
  }
  return statuses
}

/** How many requests wait over this Redis. */
async function waitingIn(server: RedisServer): Promise<number> {
  const client = server.client()
  const names = (await client.keys('*:semaphore*')).map(key => /\{(.+)\}/.exec(key)?.[1] ?? '')
  const counts = [...new Set(names)].map(name => {
    const semaphore = new Semaphore(client, decodeURIComponent(name))
    return semaphore.waiting().finally(() => semaphore.close())
  })
  const all = await Promise.all(counts)
  client.disconnect()
  return all.reduce((sum, count) => sum + count, 0)
}

/** The promises of `concurrencyLimit` for every framework, in one process and over Redis. */
export function describeConcurrencyLimit(name: string, adapter: ConcurrencyAdapter): void {
  const warned = warnings()
  const whole = wholeFor(adapter.whole === true)
  let redis: RedisServer
  const running: Service[] = []
  const controls: ConcurrencyControls[] = []
  let names = 0
  if (whole.runs) {
    beforeAll(async () => {
      redis = await RedisServer.start()
    })
    afterAll(() => redis.stop())
  }
  afterEach(async () => {
    await Promise.all(running.splice(0).map(service => service.stop()))
    await Promise.all(controls.splice(0).map(control => control.close()))
  })
  const limited = (options: Options) => {
    const limit = adapter.concurrencyLimit(options)
    controls.push(limit)
    return limit
  }
  const serve = async (...limits: ConcurrencyControls[]) => {
    const service = await new Service().start(adapter, limits)
    running.push(service)
    return service
  }
  const user = (req: unknown) => adapter.header(req, 'x-user')

  describe.each(whole.orFew(['in one process', 'over Redis'], 1))(`${name}: %s`, where => {
    const options = (own: Options): Options =>
      where === 'over Redis'
        ? { client: redis.client(), name: `${name}-${names++}`, deadline: '5s', ...own }
        : { store: new MemoryStore(), ...own }

    whole.test('with no permits refuses every request at once with its usual status, also with wait', async () => {
      for (const own of [{}, { key: user }, { key: user, wait: '20s' }, { wait: '20s' }]) {
        const service = await serve(limited(options({ permits: 0, ...own })))
        const { status, headers } = await service.ask({ 'x-user': 'ada' }).reply
        expect([status, headers['retry-after']]).toEqual(['key' in own ? 429 : 503, '1'])
      }
    })

    test('admits the given number of requests of a key at once and refuses more with 429', async () => {
      const service = await serve(limited(options({ permits: 2, key: user, name: 'reports' })))
      const ada = { 'x-user': 'ada' }
      const first = [service.ask(ada), service.ask(ada)]
      await service.holds(2)
      const refused = await service.ask(ada).reply
      expect(refused.status).toBe(429)
      expect(refused.headers['retry-after']).toBe('1')
      expect(refused.headers['cache-control']).toBe('no-store')
      expect(refused.headers['ratelimit-policy']).toBe('"reports";q=2;qu="concurrent-requests"')
      expect(refused.body).toBe('Too many requests at once: try again in 1 second.\n')
      const bob = service.ask({ 'x-user': 'bob' })
      await service.holds(3)
      const free = service.ask()
      await service.holds(4)
      for (let i = 0; i < 4; i++) service.finish()
      for (const { reply } of [...first, bob, free]) expect((await reply).status).toBe(200)
      expect((await first[0].reply).headers['ratelimit-policy']).toBe('"reports";q=2;qu="concurrent-requests"')
      expect((await free.reply).headers['ratelimit-policy']).toBeUndefined()
      await eventually('free again', async () => (await service.ask(ada, '/quick').reply).status === 200)
    })

    test('refuses with 503 above the limit of the whole service', async () => {
      const service = await serve(limited(options({ permits: 1 })))
      const first = service.ask()
      await service.holds(1)
      const refused = await service.ask({ accept: 'application/json' }).reply
      expect(refused.status).toBe(503)
      expect(JSON.parse(refused.body)).toMatchObject({
        type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity',
        status: 503,
      })
      service.finish()
      expect((await first.reply).status).toBe(200)
    })

    test('with the address as the key, each client behind a trusted proxy has its own count, and an IPv6 network has one', async () => {
      const service = await serve(limited(options({ permits: 1, key: 'address', proxies: 1 })))
      const from = (address: string) => ({ 'x-forwarded-for': `198.51.100.66, ${address}` })
      const clients = Array.from({ length: 20 }, (_, i) => service.ask(from(`203.0.113.${i}`)))
      const network = service.ask(from('2001:db8::1'))
      await service.holds(21)
      for (const same of ['203.0.113.7', '::ffff:203.0.113.7', '2001:db8::2', '2001:db8:0:ff::1']) {
        const { status, headers } = await service.ask(from(same)).reply
        expect([same, status, headers['retry-after']]).toEqual([same, 429, '1'])
      }
      for (let i = 0; i < 21; i++) service.finish()
      for (const { reply } of [...clients, network]) expect((await reply).status).toBe(200)
    })

    whole.test(
      'refuses addresses on the deny list with 403, and lets those on the allow list pass without a place',
      async () => {
        const lists = { proxies: 1, deny: ['203.0.113.0/24'], allow: ['10.0.0.0/8'] }
        const service = await serve(limited(options({ permits: 0, ...lists })))
        const statuses = []
        for (const address of ['203.0.113.9', '10.1.2.3', '192.0.2.1']) {
          statuses.push((await service.ask({ 'x-forwarded-for': address }, '/quick').reply).status)
        }
        expect(statuses).toEqual([403, 200, 503])
        expect(service.done).toBe(1)
      },
    )

    test.each<[string, Omit<Options, 'permits'>]>(
      whole.orFew([
        ['no key', {}],
        ['the address as its key', { key: 'address' }],
        ['a key that is missing with the address', { key: () => undefined }],
        ['skip', { skip: () => true }],
        ['a deny list', { deny: ['127.0.0.0/8'] }],
      ]),
    )('a client that has reset its connection reaches no handler and takes no place past %s', async (_, own) => {
      const service = await serve(limited(options({ permits: 2, ...own })))
      resetAtOnce(service.port, 40)
      await service.allGone()
      const both = [service.ask({}, '/quick'), service.ask({}, '/quick')]
      const status = own.deny ? 403 : 200
      for (const { reply } of both) expect((await reply).status).toBe(status)
      expect(service.done).toBe(own.deny ? 0 : 2)
    })

    test('keeps the place of a client that has gone until the handler has ended the response', async () => {
      const service = await serve(limited(options({ permits: 2, key: user })))
      const ada = { 'x-user': 'ada' }
      for (const _ of [1, 2]) service.ask(ada)
      await service.holds(2)
      await service.dropClients()
      for (let i = 0; i < 50; i++) expect((await service.ask(ada).reply).status).toBe(429)
      expect([service.inside, service.most]).toEqual([2, 2])
      service.finish()
      await eventually('free', async () => (await service.ask(ada, '/quick').reply).status === 200)
      expect(service.inside).toBe(1)
    })

    test('frees the place of a client that has gone after abandonAfter, although the handler still works', async () => {
      const service = await serve(limited(options({ permits: 1, key: user, abandonAfter: '200ms' })))
      service.ask({ 'x-user': 'ada' })
      await service.holds(1)
      await service.dropClients()
      const leftAt = performance.now()
      await eventually('free', async () => (await service.ask({ 'x-user': 'ada' }, '/quick').reply).status === 200)
      expect(performance.now() - leftAt).toBeGreaterThan(150)
      expect(service.inside).toBe(1)
    })

    test('requests of one write that is dropped leave every place free', async () => {
      const service = await serve(limited(options({ permits: 5, key: () => 'reports' })))
      const client = await service.connect()
      client.send('/slow', '/report', '/report', '/report', '/report')
      await service.holds(5)
      await service.dropClients()
      for (let i = 0; i < 5; i++) service.finish()
      await eventually('the first is free', async () => (await service.ask({}, '/quick').reply).status === 200)
      const next = Array.from({ length: 5 }, () => service.ask())
      await service.holds(5)
      for (const _ of next) service.finish()
      for (const { reply } of next) expect((await reply).status).toBe(200)
    })

    test('a response that waits behind a slow one, or that is not read, holds no place', async () => {
      const service = await serve(limited(options({ permits: 2, key: () => 'all' })))
      const reader = await service.connect({ reads: false })
      reader.send('/large')
      await eventually('answered, but not read', async () => service.done === 1)
      const client = await service.connect()
      client.send('/slow', '/large')
      await eventually('answered behind a slow one', async () => service.done === 2)
      const other = service.ask()
      await service.holds(2)
      expect((await service.ask().reply).status).toBe(429)
      service.finish()
      service.finish()
      expect((await other.reply).status).toBe(200)
    })

    test('a stream that is cut off by the end of its client frees the place', async () => {
      const service = await serve(limited(options({ permits: 1, key: () => 'all' })))
      const client = await service.connect({ reads: false })
      client.send('/endless')
      await eventually('it streams', async () => service.done === 1)
      await eventually('it is refused', async () => (await service.ask({}, '/quick').reply).status === 429)
      client.leave()
      await eventually('free', async () => (await service.ask({}, '/quick').reply).status === 200)
    })

    test('a response that nobody reads frees the place abandonAfter after its last byte was taken', async () => {
      const service = await serve(limited(options({ permits: 1, key: () => 'all', abandonAfter: '150ms' })))
      const reader = await service.connect({ reads: false })
      const askedAt = performance.now()
      reader.send('/endless')
      await eventually('it streams', async () => service.done === 1)
      await eventually('free', async () => (await service.ask({}, '/quick').reply).status === 200)
      expect(performance.now() - askedAt).toBeGreaterThanOrEqual(149)
      expect(reader.socket.destroyed).toBe(false)
      reader.leave()
    })

    test('frees the place when the work fails', async () => {
      const service = await serve(limited(options({ permits: 1, key: user })))
      const first = service.ask({ 'x-user': 'ada' })
      await service.holds(1)
      service.finish(new Error('broken'))
      expect((await first.reply).status).toBe(500)
      await eventually('free', async () => (await service.ask({ 'x-user': 'ada' }, '/quick').reply).status === 200)
    })

    whole.test(
      'with wait serves requests first come, first served, and refuses those for which the queue has no room',
      async () => {
        let arrived = 0
        const key = () => {
          arrived++
          return 'all'
        }
        const service = await serve(limited(options({ permits: 1, key, wait: '20s', queue: 2 })))
        const replies = [service.ask()]
        await service.holds(1)
        const order: number[] = []
        for (const i of [1, 2]) {
          const asked = service.ask()
          void asked.reply.then(() => order.push(i))
          replies.push(asked)
          await eventually('arrived', async () => arrived === i + 1)
        }
        expect((await service.ask().reply).status).toBe(429)
        for (let i = 0; i < 3; i++) {
          await service.holds(1)
          service.finish()
          expect((await replies[i].reply).status).toBe(200)
        }
        expect(order).toEqual([1, 2])
        expect(service.most).toBe(1)
      },
      20_000,
    )

    test('mounted twice takes one place, waits for nobody, and warns once', async () => {
      const limit = limited(options({ permits: 1, key: user, wait: '20s' }))
      const service = await serve(limit, limit)
      const told: string[] = []
      for (let i = 0; i < 3; i++) {
        const { status, headers } = await service.ask({ 'x-user': 'ada' }, '/quick').reply
        expect(status).toBe(200)
        told.push(...`${headers['ratelimit-policy']}`.split(', '))
      }
      const isOne = where === 'over Redis' || adapter.makesLimitsAnew === undefined
      expect(told).toHaveLength(isOne ? 3 : 6)
      expect(warned.textsOf('SPILLWAY_DOUBLE')).toEqual(
        isOne ? [expect.stringContaining('a request came twice for a place of')] : [],
      )
    })

    whole.test('two limits of different names have a place each', async () => {
      const [first, second] = ['a', 'b'].map(name => limited(options({ permits: 1, name: `${name}-${names++}` })))
      const service = await serve(first, second)
      expect((await service.ask({}, '/quick').reply).status).toBe(200)
      const other = service.ask()
      await service.holds(1)
      expect((await service.ask().reply).status).toBe(503)
      service.finish()
      expect((await other.reply).status).toBe(200)
    })

    whole.test('refuses at the end of wait', async () => {
      const service = await serve(limited(options({ permits: 1, wait: 50 })))
      const first = service.ask()
      await service.holds(1)
      const askedAt = performance.now()
      expect((await service.ask().reply).status).toBe(503)
      expect(performance.now() - askedAt).toBeGreaterThanOrEqual(49)
      service.finish()
      expect((await first.reply).status).toBe(200)
    })

    test('a client that goes away while it waits leaves the queue and takes no place', async () => {
      const service = await serve(limited(options({ permits: 1, key: () => 'all', wait: '20s', queue: 1 })))
      const first = service.ask()
      await service.holds(1)
      const second = service.ask()
      await eventually('queue full', async () => {
        const third = service.ask()
        // Only waiting for a while shows that a request waits; it is asked again.
        const full = await Promise.race([third.reply.then(({ status }) => status === 429), sleep(40).then(() => false)])
        third.sent.destroy()
        return full
      })
      second.sent.destroy()
      let next = service.ask()
      await eventually('room in the queue', async () => {
        // Who comes behind one that waits is refused; who comes behind a refused one is judged later.
        const behind = service.ask()
        const passed = behind.reply.then(() => sleep(20)).then(() => false)
        const refused = await Promise.race([next.reply.then(() => true), passed])
        behind.sent.destroy()
        if (refused) next = service.ask()
        return !refused
      })
      service.finish()
      expect((await first.reply).status).toBe(200)
      await service.holds(1)
      service.finish()
      expect((await next.reply).status).toBe(200)
    })

    whole.test(
      'many requests that come and go leave every place free',
      async () => {
        const service = await serve(limited(options({ permits: 3, key: () => 'all', wait: '20s', queue: 10_000 })))
        const each = ofCases(50)
        let served = 0
        await Promise.all(
          Array.from({ length: 20 }, async (_, lane) => {
            for (let i = 0; i < each; i++) {
              const { sent, reply } = service.ask({}, '/quick')
              if ((lane + i) % 3 === 0) setTimeout(() => sent.destroy(), i % 5)
              if ((await reply.catch(() => undefined))?.status === 200) served++
            }
          }),
        )
        expect(served).toBeGreaterThan(10 * each)
        expect(service.most).toBeLessThanOrEqual(3)
        const last = [service.ask(), service.ask(), service.ask()]
        await service.holds(3)
        for (const _ of last) service.finish()
        for (const { reply } of last) expect((await reply).status).toBe(200)
      },
      30_000,
    )
  })

  whole.describe(`${name}: over Redis`, () => {
    test('two processes share the places of a key', async () => {
      const shared = { permits: 1, key: () => 'all', name: `shared-${names++}`, deadline: '5s' }
      const store = new RedisStore(redis.client(), { prefix: 'app' })
      const [here, there] = [
        await serve(limited({ ...shared, store })),
        await serve(limited({ ...shared, client: redis.client(), prefix: 'app' })),
      ]
      const first = here.ask()
      await here.holds(1)
      expect((await there.ask().reply).status).toBe(429)
      here.finish()
      expect((await first.reply).status).toBe(200)
      await eventually('free', async () => (await there.ask({}, '/quick').reply).status === 200)
      expect((await redis.client().keys(`app:{${shared.name}%3a=all}:semaphore*`)).length).toBeGreaterThan(0)
    })

    test('the number of permits follows the code, even if another number was in force', async () => {
      const shared = { key: () => 'all', name: `shared-${names++}`, deadline: '5s' }
      const before = await serve(limited({ ...shared, permits: 1, client: redis.client() }))
      const first = before.ask()
      await before.holds(1)
      const now = await serve(limited({ ...shared, permits: 2, client: redis.client() }))
      const second = now.ask()
      await now.holds(1)
      expect((await now.ask().reply).status).toBe(429)
      before.finish()
      now.finish()
      expect([(await first.reply).status, (await second.reply).status]).toEqual([200, 200])
    })

    test('if Redis hangs or is gone, no request waits for it: each process counts alone', async () => {
      const server = await RedisServer.start()
      const client = server.client()
      await client.ping()
      const service = await serve(limited({ permits: 1, client, deadline: 30 }))
      expect((await service.ask({}, '/quick').reply).status).toBe(200)
      for (const fault of [() => server.pause(), () => server.kill()]) {
        await fault()
        const first = service.ask()
        await service.holds(1)
        expect((await service.ask().reply).status).toBe(503)
        service.finish()
        expect((await first.reply).status).toBe(200)
      }
      await server.stop()
    })

    test('also with wait, no request waits for a Redis that hangs or is gone: requests wait in the line of their process', async () => {
      for (const fault of ['pause', 'kill'] as const) {
        const server = await RedisServer.start()
        const client = server.client()
        const service = await serve(limited({ permits: 1, client, deadline: 30, wait: '20s' }))
        expect((await service.ask({}, '/quick').reply).status).toBe(200)
        await server[fault]()
        const startedAt = performance.now()
        const all = [service.ask(), service.ask(), service.ask()]
        expect(await oneAfterTheOther(service, all)).toEqual([200, 200, 200])
        expect(performance.now() - startedAt).toBeLessThan(2000)
        expect(service.most).toBe(1)
        await server.stop()
      }
    })

    test('a request that already waits when Redis hangs continues in the line of its process', async () => {
      for (const fault of ['pause', 'kill'] as const) {
        const server = await RedisServer.start()
        const client = server.client()
        const service = await serve(limited({ permits: 1, client, deadline: 300, wait: '20s' }))
        const inside = service.ask()
        await service.holds(1)
        const waits = [service.ask(), service.ask()]
        await eventually('both wait in Redis', async () => (await waitingIn(server)) === 2)
        await server[fault]()
        const startedAt = performance.now()
        expect(await oneAfterTheOther(service, [inside, ...waits])).toEqual([200, 200, 200])
        expect(performance.now() - startedAt).toBeLessThan(3000)
        expect(service.most).toBe(1)
        await server.stop()
      }
    })

    test('the observer is notified of an outage of a client that is not connected, with the remedy if it was never connected', async () => {
      const failures: string[] = []
      const observer = { storeFailed: ({ message }: Error) => failures.push(message) }
      const never = createClient({ url: 'redis://127.0.0.1:1' })
      const service = await serve(limited({ permits: 5, client: never, deadline: '10s', observer }))
      expect((await service.ask({}, '/quick').reply).status).toBe(200)
      expect(failures).toEqual([expect.stringContaining('call await client.connect()')])
    })

    test('the observer, or else a process warning, reports an outage', async () => {
      const server = await RedisServer.start()
      const client = server.client()
      await client.ping()
      const failures: Error[] = []
      const observer = { storeFailed: (error: Error) => failures.push(error) }
      const told = await serve(limited({ permits: 5, client, deadline: 20, observer, name: 'told' }))
      const unobserved = await serve(limited({ permits: 5, client, deadline: 20, name: 'warned' }))
      const another = await serve(limited({ permits: 5, client, deadline: 20, name: 'another' }))
      server.pause()
      for (let i = 0; i < 5; i++) await told.ask({}, '/quick').reply
      expect(failures.length).toBe(5)
      expect(warned.texts).toEqual([])
      for (let i = 0; i < 5; i++) await unobserved.ask({}, '/quick').reply
      for (let i = 0; i < 5; i++) await another.ask({}, '/quick').reply
      expect(warned.texts).toHaveLength(1)
      expect(warned.texts[0]).toMatch(
        /^Redis at 127\.0\.0\.1:\d+ does not answer .*: until it does, each process lets in/,
      )
      server.unpause()
      await eventually('the end of the outage', async () => {
        await unobserved.ask({}, '/quick').reply
        return warned.texts.length === 2
      })
      expect(warned.texts[1]).toContain('answers again')
      await server.stop()
    })
  })

  if (!adapter.http1Only)
    test(`${name}: over HTTP/2 a stream or a session that its client closes frees the place`, async () => {
      const limit = limited({ permits: 1, store: new MemoryStore(), abandonAfter: '100ms' })
      const service = await new Service().start(adapter, [limit], true)
      running.push(service)
      const session = () => connect2(`http://127.0.0.1:${service.port}`).on('error', () => {})
      const asking = session()
      const ask = (path: string, over = asking) => over.request({ ':path': path }).on('error', () => {})
      const status = async () => {
        const stream = ask('/quick')
        const [fields] = await once(stream, 'response')
        stream.close()
        return fields[':status']
      }
      for (const leaves of ['stream', 'session']) {
        const client = session()
        const stream = ask('/endless', client)
        const { done } = service
        await eventually('it streams', async () => service.done > done)
        if (leaves === 'stream') stream.close(8)
        else client.destroy()
        await eventually('free', async () => (await status()) === 200)
        client.destroy()
      }
      asking.destroy()
    })

  describe(`${name}: options`, () => {
    test('that are functions may throw: the error reaches the service, and no place is taken', async () => {
      let broken = true
      const key = () => {
        if (broken) throw new Error('no key')
        return 'all'
      }
      const service = await serve(limited({ permits: 1, key }))
      expect((await service.ask().reply).status).toBe(500)
      broken = false
      expect((await service.ask({}, '/quick').reply).status).toBe(200)
    })

    test('handler and message may be functions, called with status and Retry-After set', async () => {
      const seen: unknown[] = []
      const note = (res: unknown) => seen.push(adapter.told(res))
      const handler = (_: unknown, res: unknown) => {
        note(res)
        return adapter.answer(res, 'busy')
      }
      const message = (_: unknown, res: unknown) => {
        note(res)
        return { busy: true }
      }
      for (const [own, body] of [
        [{ handler }, 'busy'],
        [{ message }, '{"busy":true}'],
      ] as const) {
        const service = await serve(limited({ permits: 0, ...own }))
        const refused = await service.ask().reply
        expect([refused.status, refused.body, refused.headers['retry-after']]).toEqual([503, body, '1'])
      }
      expect(seen).toEqual([
        [503, '1'],
        [503, '1'],
      ])
      const broken = await serve(limited({ permits: 0, handler: () => Promise.reject(new Error('broken')) }))
      expect((await broken.ask().reply).status).toBe(500)
    })

    whole.test('skip, message, statusCode and headers work', async () => {
      const skip = (req: unknown) => adapter.header(req, 'x-skip') === '1'
      const service = await serve(
        limited({ permits: 0, skip, message: { busy: true }, statusCode: 529, headers: false }),
      )
      const refused = await service.ask().reply
      expect([refused.status, refused.body]).toEqual([529, '{"busy":true}'])
      expect(refused.headers['ratelimit-policy']).toBeUndefined()
      expect((await service.ask({ 'x-skip': '1' }, '/quick').reply).status).toBe(200)
    })

    test('of two limits are reported in one header, and both places come back', async () => {
      const service = await serve(
        limited({ permits: 2, name: 'all' }),
        limited({ permits: 1, key: user, name: 'each' }),
      )
      const first = service.ask({ 'x-user': 'ada' })
      await service.holds(1)
      const refused = await service.ask({ 'x-user': 'ada' }).reply
      expect(refused.status).toBe(429)
      expect(refused.headers['ratelimit-policy']).toBe(
        '"all";q=2;qu="concurrent-requests", "each";q=1;qu="concurrent-requests"',
      )
      const second = service.ask({ 'x-user': 'bob' })
      await service.holds(2)
      service.finish()
      service.finish()
      expect([(await first.reply).status, (await second.reply).status]).toEqual([200, 200])
    })
  })
}
