import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { Redis } from '@upstash/redis'
import { RedisStore, type RedisStoreOptions } from '../../../src/index.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { LivePolicies } from '../../../src/operating/live/live-policies.js'
import { clientName } from '../../../src/redis/clients.js'
import { isFault } from '../../../src/redis/replies.js'
import { RedisStore as DropInStore } from '../../../src/replacing/express-rate-limit/index.js'
import { DelayQueue } from '../../../src/waiting/queue/delay-queue.js'
import { eventually } from '../../support/eventually.js'
import { RedisServer } from '../../support/redis-server.js'
import { type Fault, RestFront, type RestRequest } from '../../support/rest-front.js'

const ONCE = { retry: { retries: 0 } }
const LONG = '5s'

let redis: RedisServer
let front: RestFront
beforeAll(async () => {
  redis = await RedisServer.start()
}, 60_000)
afterAll(() => redis.stop())
beforeEach(async () => {
  front = await RestFront.start(redis)
})
afterEach(() => front.stop())

let prefixes = 0
const clientOver = (options: object = {}) => new Redis({ ...front.access, enableTelemetry: false, ...options })
function limiterOver(client: Redis, options: object = {}, ofStore: RedisStoreOptions = {}): RateLimiter {
  const store = new RedisStore(client, { prefix: `upstash ${prefixes++}`, ...ofStore })
  return new RateLimiter({ policy: '9/1h', deadline: LONG, onStoreFailure: 'closed', observer: {}, store, ...options })
}
const namesOf = ({ commands }: RestRequest) => commands.map(([name]) => name)
/** What was asked by HTTP meanwhile. */
async function during(work: () => Promise<unknown>): Promise<readonly RestRequest[]> {
  const before = front.requests.length
  await work()
  return front.requests.slice(before)
}
/** The first requests of this front fail so. */
function failing(fault: Fault, times = Number.POSITIVE_INFINITY): void {
  let left = times
  front.fault = () => (left-- > 0 ? fault : undefined)
}

describe('requests', () => {
  test('a decision is one request, also the first of a process, once the server knows the script', async () => {
    await limiterOver(clientOver()).consume('k')
    const another = limiterOver(clientOver())
    const [first] = await during(() => another.consume('k'))
    expect([first.path, namesOf(first)]).toEqual(['/', ['EVALSHA']])
    for (let i = 0; i < 3; i++) expect(await during(() => another.consume('k'))).toHaveLength(1)
  })

  test('a change before the first answer asks for the time first, since the clocks may differ', async () => {
    await limiterOver(clientOver()).reset('k')
    const requests = await during(() => limiterOver(clientOver()).reset('k'))
    const lastMoments = requests.map(({ commands: [words] }) =>
      Math.max(...words.map(Number).filter(word => word >= 0)),
    )
    expect(lastMoments).toHaveLength(2)
    expect(lastMoments[0]).toBeLessThan(1e12)
    expect(lastMoments[1]).toBeGreaterThan(1e12)
  })

  test('all decisions of a turn are one request, whatever limits they are under', async () => {
    const client = clientOver()
    const limiters = ['9/1h', '5/1m token-bucket', '9/1h; 3/1m fixed-window'].map(policy =>
      limiterOver(client, { policy }),
    )
    for (const limiter of limiters) await limiter.consume('warm')
    const decide = () =>
      Promise.all(limiters.flatMap(each => [...'abcdefg'].flatMap(key => [each.consume(key), each.peek(key)])))
    const [request, ...more] = await during(decide)
    expect(more).toEqual([])
    expect([request.path, namesOf(request)]).toEqual(['/pipeline', Array(6).fill('EVALSHA')])
  })

  test('a decision that begins in a later callback of the same turn joins them', async () => {
    const limiter = limiterOver(clientOver())
    await limiter.consume('warm')
    const callbacks = Array.from(
      { length: 5 },
      (_, i) => new Promise(done => process.nextTick(() => queueMicrotask(() => done(limiter.consume(`k${i}`))))),
    )
    expect(await during(() => Promise.all(callbacks))).toHaveLength(1)
  })

  test('a script that the server does not know is sent as text', async () => {
    const limiter = limiterOver(clientOver())
    await limiter.consume('k')
    await redis.client().script('FLUSH')
    const requests = await during(() => limiter.consume('k'))
    expect(requests.map(request => [request.path, namesOf(request)])).toEqual([
      ['/', ['EVALSHA']],
      ['/', ['EVAL']],
    ])
    expect((await limiter.peek('k', 0)).remaining).toBe(7)
  })

  test('in a pipeline, too', async () => {
    const client = clientOver()
    const limiters = [limiterOver(client), limiterOver(client, { policy: '9/1h fixed-window' })]
    await redis.client().script('FLUSH')
    const requests = await during(() => Promise.all(limiters.map(each => each.consume('k'))))
    expect(requests.map(namesOf)).toEqual([
      ['EVALSHA', 'EVALSHA'],
      ['EVAL', 'EVAL'],
    ])
  })
})

describe('a deadline', () => {
  test('ends the request', async () => {
    const limiter = limiterOver(clientOver(), { deadline: 50 })
    await limiter.consume('warm')
    failing('silence')
    const startedAt = performance.now()
    expect(await limiter.consume('k')).toMatchObject({ allowed: false, degraded: true })
    expect(performance.now() - startedAt).toBeLessThan(500)
    await eventually('it is given up', async () => front.aborted === 1)
  })

  test('bounds what the client tries: nothing is sent after it', async () => {
    const limiter = limiterOver(clientOver({ retry: { retries: 50, backoff: () => 20 } }), { deadline: 600 })
    await limiter.consume('warm')
    failing('cut')
    const requests = await during(() => limiter.consume('k'))
    expect(requests.length).toBeGreaterThan(1)
    const atTheEnd = front.requests.length
    await new Promise(done => setTimeout(done, 100))
    expect(front.requests.length).toBe(atTheEnd)
  })

  test('before the first answer is the connectDeadline', async () => {
    const slow = { deadline: 1, onStoreFailure: 'closed' }
    expect(await limiterOver(clientOver(), slow).consume('k')).toMatchObject({ degraded: false, source: 'redis' })
    expect(await limiterOver(clientOver(), slow, { connectDeadline: 0 }).consume('k')).toMatchObject({ degraded: true })
  })

  test('before the first answer is connectDeadline once, not for each decision', async () => {
    const limiter = limiterOver(clientOver(ONCE), { deadline: 20 }, { connectDeadline: 400 })
    failing('silence')
    const startedAt = performance.now()
    for (let i = 0; i < 10; i++) expect(await limiter.consume('k')).toMatchObject({ degraded: true })
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(399)
    expect(performance.now() - startedAt).toBeLessThan(1500)
  })

  test('a failing probe without an answer makes later ones rarer, as over TCP', async () => {
    const limiter = limiterOver(clientOver(ONCE), { deadline: 5 })
    await limiter.consume('warm')
    failing('silence')
    for (let i = 0; i < 20; i++) await limiter.consume('k')
    const probes = await during(async () => {
      const endsAt = performance.now() + 1500
      while (performance.now() < endsAt) {
        await limiter.consume('k')
        await new Promise(done => setTimeout(done, 5))
      }
    })
    // After 200, 600 and 1400 ms; every 200 ms it would be seven.
    expect(probes.length).toBeLessThan(5)
  })
})

describe('an answer that is lost', () => {
  test('the client asks again for a decision', async () => {
    const limiter = limiterOver(clientOver({ retry: { retries: 2, backoff: () => 1 } }))
    await limiter.consume('k')
    failing('cut', 2)
    expect(await limiter.consume('k')).toMatchObject({ degraded: false, source: 'redis', remaining: 7 })
  })

  test('of a change is not asked for again: units come back once', async () => {
    const limiter = limiterOver(clientOver({ retry: { retries: 2, backoff: () => 1 } }))
    for (let i = 0; i < 6; i++) await limiter.consume('k')
    await limiter.refund('k', 1)
    failing('cut after', 1)
    await expect(limiter.refund('k', 1)).rejects.toThrow(/^Redis failed to refund: fetch failed: /)
    expect((await limiter.peek('k', 0)).remaining).toBe(5)
  })

  test('of an object that counts requests once is asked for again', async () => {
    const queue = new DelayQueue<string>(clientOver({ retry: { retries: 2, backoff: () => 1 } }), 'mail', {
      prefix: 'once',
    })
    await queue.push('warm')
    failing('cut after', 1)
    await queue.push('hello')
    const payloads = (await queue.receive({ count: 10 })).map(({ payload }) => payload)
    expect(payloads.sort()).toEqual(['hello', 'warm'])
    await queue.close()
  })
})

describe('failures', () => {
  const FAULTS: readonly [name: string, fault: Fault, words: RegExp][] = [
    [
      'a status of a proxy',
      { status: 502, text: '<html>Bad Gateway</html>' },
      /Unable to parse response body: <html>Bad Gateway/,
    ],
    ['a full server', { status: 400, text: '{"error":"OOM command not allowed"}' }, /: OOM command not allowed$/],
    [
      'a quota of the provider',
      { status: 429, text: '{"error":"ERR max requests limit exceeded"}' },
      /: ERR max requests limit exceeded$/,
    ],
    ['an answer without a result', { status: 200, text: '{}' }, /has no result$/],
    ['a closed connection', 'cut', /: fetch failed: /],
  ]
  test.each(FAULTS)(
    '%s is an outage: the failure policy decides, and waiters wait for its end',
    async (_, fault, words) => {
      const errors: Error[] = []
      const observer = { storeFailed: (error: Error) => errors.push(error) }
      const limiter = limiterOver(clientOver(ONCE), { observer, onStoreFailure: 'local' })
      await limiter.consume('k')
      failing(fault, 1)
      expect(await limiter.consume('k')).toMatchObject({ allowed: true, degraded: true })
      expect(errors.map(({ message }) => message)).toEqual([expect.stringMatching(words)])
      expect(errors[0].message).not.toContain('command was')
      failing(fault, 1)
      expect(await limiter.acquire('k', { timeout: LONG })).toMatchObject({ allowed: true })
    },
  )

  test('a wrong token is named, without the keys of the request', async () => {
    const limiter = limiterOver(clientOver({ token: 'wrong' }), { onStoreFailure: 'closed' })
    await expect(limiter.refund('secret', 1)).rejects.toThrow(/WRONGPASS invalid or missing auth token$/)
  })

  test('more than a server takes now is no fault of the request', () => {
    expect(isFault(new Error('ERR max number of clients reached'))).toBe(false)
    expect(isFault(new Error('ERR unknown command'))).toBe(true)
  })
})

describe('the client', () => {
  const FORMS: readonly [name: string, make: () => Redis][] = [
    ['with texts not in base64', () => clientOver({ responseEncoding: false })],
    ['without pipelines of its own', () => clientOver({ enableAutoPipelining: false })],
    [
      'with a middleware',
      () => {
        const client = clientOver()
        client.use((request, next) => next(request))
        return client
      },
    ],
    [
      'over a requester of the user',
      () => {
        const { client: requester } = clientOver() as unknown as { client: { request(request: never): Promise<never> } }
        return new Redis({ request: request => requester.request(request as never) })
      },
    ],
  ]
  test.each(FORMS)('%s decides, and gives texts as they were written', async (_, make) => {
    const client = make()
    const limiter = limiterOver(client, { policy: '2/1h' })
    const answers = []
    for (let i = 0; i < 3; i++) answers.push((await limiter.consume('null')).allowed)
    expect(answers).toEqual([true, true, false])
    const live = new LivePolicies(client, { defaults: { api: '1/1h' }, prefix: `live ${prefixes++}` })
    await live.set('api', '7/1h', { by: '12345678901234567890' })
    await eventually('it is in force', async () => live.for('api')[0].quota === 7)
    expect((await live.history('api'))[0]).toMatchObject({ by: '12345678901234567890' })
    await live.close()
  })

  test('is named by its host', () => {
    expect(clientName(clientOver())).toBe(new URL(front.access.url).host)
  })

  test('resets all keys of a drop-in store', async () => {
    const store = new DropInStore({ client: clientOver(), prefix: 'drop-in:' })
    store.init({ windowMs: 60_000 } as never)
    await store.increment('1')
    await store.increment('2')
    await store.resetAll()
    expect((await store.increment('1')).totalHits).toBe(1)
  })
})

test('settle gives back although the answers of decisions cross', async () => {
  const client = clientOver()
  const limiter = limiterOver(client, { policy: '1000/1h', name: 'crossing' })
  await limiter.consume('k')
  // Of each two requests the first is answered last.
  let release = () => {}
  front.delay = ({ commands }) => {
    if (commands[0][0] !== 'EVALSHA') return undefined
    const earlier = release
    if (earlier === NONE) {
      return new Promise(done => {
        release = done
      })
    }
    release = NONE
    setTimeout(earlier, 10)
    return undefined
  }
  const NONE = () => {}
  release = NONE
  const made = []
  for (let i = 0; i < 12; i++) {
    made.push(limiter.consume('k', 10))
    // Each in a request of its own, and in another millisecond.
    await new Promise(done => setTimeout(done, 3))
  }
  const decisions = await Promise.all(made)
  front.delay = () => undefined
  const before = (await limiter.peek('k', 0)).remaining
  for (const decision of decisions) await limiter.settle(decision, 0)
  expect((await limiter.peek('k', 0)).remaining - before).toBe(120)
  await limiter.close()
})
