import { runInNewContext } from 'node:vm'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { RedisServer } from '../support/redis-server.js'
import { RestFront } from '../support/rest-front.js'
import { START, STORIES } from '../support/stories.js'
import { bundled, runOnWeb, webGlobals } from './bundling.js'

/**
 * Tells every story to a memory store, and gives what it answered: [allowed, remaining, retryAfterMs (null: never),
 * resetAfterMs].
 */
const TELL = `
  const tell = () => ${JSON.stringify(STORIES)}.map(([policy, rows]) => {
    const clock = new ManualClock(${START})
    const store = new MemoryStore({ clock })
    const [limit] = parsePolicy(policy)
    return rows.map(([at, cost]) => {
      clock.set(${START} + at)
      const [verdict] = store.consume([{ key: 'client'.repeat(100), limit }], cost)
      return [verdict.allowed, verdict.remaining, verdict.retryAfterMs, verdict.resetAfterMs]
    })
  })
`
const TOLD = STORIES.map(([, rows]) =>
  rows.map(([, , allowed, remaining, retryAfterMs, resetAfterMs]) => [
    allowed,
    remaining,
    retryAfterMs === Number.POSITIVE_INFINITY ? null : retryAfterMs,
    resetAfterMs,
  ]),
)

describe('on the browser platform', () => {
  test('memory store and algorithms import nothing of Node', async () => {
    const program = `
      import { MemoryStore } from './src/limiter/memory/memory-store.ts'
      import { ManualClock } from './src/testing.ts'
      import { parsePolicy } from './src/limiter/core/limit.ts'
      import * as algorithms from './src/limiter/algorithms/registry.ts'
      ${TELL}
      globalThis.answer = Promise.resolve(JSON.stringify([Object.keys(algorithms).length > 0, tell()]))`
    // There such an import is an error.
    const { code } = await bundled(program, { platform: 'neutral' })
    expect(await runOnWeb(code)).toEqual([true, TOLD])
  })

  describe('the package as it is built', () => {
    test('decides exactly in memory', async () => {
      const program = `
        import { MemoryStore, parsePolicy } from 'spillway'
        import { ManualClock } from 'spillway/testing'
        ${TELL}
        globalThis.answer = Promise.resolve(JSON.stringify(tell()))`
      expect(await runOnWeb((await bundled(program)).code)).toEqual(TOLD)
    })

    test('limits, waits, and warns on the console', async () => {
      const program = `
        import { RateLimiter } from 'spillway'
        const lines = []
        console = { warn: line => lines.push(line) }
        const observer = { decided() { throw new Error('broken') } }
        const limiter = new RateLimiter({ policy: '2/100ms', observer })
        const consume = async () => { const { allowed, retryAfterMs } = await limiter.consume('me'); return [allowed, retryAfterMs > 0] }
        globalThis.answer = (async () => {
          const answers = [await consume(), await consume(), await consume()]
          const waited = await limiter.acquire('me', { timeout: '1s' })
          await limiter.close()
          return JSON.stringify([answers, waited.allowed, [...new Set(lines)]])
        })()`
      expect(await runOnWeb((await bundled(program)).code)).toEqual([
        [
          [true, false],
          [true, false],
          [false, true],
        ],
        true,
        [expect.stringMatching(/^SPILLWAY_OBSERVER: .*broken/)],
      ])
    })

    test('applies the deadline to a store of the service', async () => {
      const program = `
        import { RateLimiter } from 'spillway'
        const silent = () => new Promise(() => {})
        const store = { consume: silent, peek: silent, refund: silent, reset: silent }
        const limiter = new RateLimiter({ policy: '1/1m', store, deadline: 20 })
        globalThis.answer = (async () => {
          const { allowed, degraded } = await limiter.consume('me')
          await limiter.close()
          return JSON.stringify([allowed, degraded])
        })()`
      expect(await runOnWeb((await bundled(program)).code)).toEqual([true, true])
    })

    test('makes no random numbers and no timers while it loads, because some runtimes forbid that', async () => {
      const forbidden = (): never => {
        throw new Error('called while the program loads')
      }
      const modules = new Proxy({}, { get: () => forbidden })
      const world = {
        ...webGlobals(),
        setTimeout: forbidden,
        setInterval: forbidden,
        queueMicrotask: forbidden,
        crypto: modules,
        performance: modules,
        Buffer: modules,
        require: () => modules,
        answer: '',
      }
      const program = `
        import * as core from 'spillway'
        import * as web from 'spillway/fetch'
        globalThis.answer = [core.RateLimiter, core.Semaphore, core.DelayQueue, web.rateLimit].map(f => typeof f).join()`
      runInNewContext((await bundled(program, { platform: 'node' })).code, world)
      expect(world.answer).toBe('function,function,function,function')
    })

    test('limits a function from Request to Response', async () => {
      const program = `
        import { rateLimit } from 'spillway/fetch'
        const limit = rateLimit({ policy: '1/1m', settle: () => 1 })
        const ask = async () => {
          const { refusal, apply } = await limit(new Request('https://service.example/'), { address: '192.0.2.1' })
          const response = refusal ?? apply(new Response('hello'))
          await response.text()
          return [response.status, response.headers.get('ratelimit')]
        }
        globalThis.answer = (async () => JSON.stringify([await ask(), await ask()]))()`
      expect(await runOnWeb((await bundled(program)).code)).toEqual([
        [200, expect.stringContaining('r=0')],
        [429, expect.stringContaining('r=0')],
      ])
    })
  })
})

describe('on the edge, over HTTP', () => {
  let redis: RedisServer
  let front: RestFront
  beforeAll(async () => {
    redis = await RedisServer.start()
    front = await RestFront.start(redis)
  }, 60_000)
  afterAll(async () => {
    await front.stop()
    await redis.stop()
  })

  const CONDITIONS = ['workerd', 'edge-light']
  /** A program without anything of Node, as it is bundled under a condition of a runtime. */
  async function runUnder(condition: string, imports: string, body: string): Promise<unknown> {
    const program = `
      ${imports}
      import { RedisStore } from 'spillway'
      import { Redis } from '@upstash/redis'
      const client = new Redis(${JSON.stringify({ ...front.access, enableTelemetry: false })})
      const prefix = '${condition} ${front.requests.length}'
      globalThis.answer = (async () => JSON.stringify(await (async () => { ${body} })()))()`
    const { code, imports: left } = await bundled(program, {
      platform: 'neutral',
      conditions: [condition],
      format: 'iife',
    })
    expect(left).toEqual([])
    return runOnWeb(code)
  }

  test.each(CONDITIONS)('under the condition %s spillway/fetch limits over RedisStore', async condition => {
    const answers = await runUnder(
      condition,
      "import { rateLimit } from 'spillway/fetch'",
      `const limit = rateLimit({ policy: '2/1m; 9/1h fixed-window', deadline: '5s', store: new RedisStore(client, { prefix }), settle: () => 1 })
      const ask = async () => {
        const { refusal, apply } = await limit(new Request('https://service.example/'), { address: '192.0.2.1' })
        const response = refusal ?? apply(new Response('hello'))
        await response.text()
        return [response.status, response.headers.get('ratelimit')]
      }
      return [await ask(), await ask(), await ask()]`,
    )
    expect(answers).toEqual([
      [200, expect.stringContaining('r=1')],
      [200, expect.stringContaining('r=0')],
      [429, expect.stringContaining('r=0')],
    ])
  })

  test.each(CONDITIONS)(
    'under the condition %s a decision is one request, and so are all of a turn',
    async condition => {
      const counts = await runUnder(
        condition,
        "import { RateLimiter } from 'spillway'",
        `const sent = []
      const { request } = client.client
      client.client.request = function (...args) { sent.push(args); return request.apply(this, args) }
      const make = policy => new RateLimiter({ policy, store: new RedisStore(client, { prefix }), deadline: '5s' })
      const limiters = [make('9/1m'), make('9/1m token-bucket')]
      const during = async work => { const before = sent.length; await work(); return sent.length - before }
      for (const limiter of limiters) await limiter.consume('warm')
      return [
        await during(() => limiters[0].consume('k')),
        await during(() => Promise.all(['a', 'b', 'c'].flatMap(key => limiters.map(limiter => limiter.consume(key))))),
      ]`,
      )
      expect(counts).toEqual([1, 1])
    },
  )

  test.each(CONDITIONS)('under the condition %s tells every story, leases, waits and shares', async condition => {
    const told = await runUnder(
      condition,
      `import { DelayQueue, parsePolicy, RateLimiter, Semaphore, SharedRateLimiter } from 'spillway'
      import { LivePolicies } from 'spillway/live'
      import { ManualClock } from 'spillway/testing'`,
      `const stories = []
      for (const [number, [policy, rows]] of ${JSON.stringify(STORIES)}.entries()) {
        const clock = new ManualClock(${START})
        const store = new RedisStore(client, { prefix: prefix + number, clock })
        const [limit] = parsePolicy(policy)
        const story = []
        for (const [at, cost] of rows) {
          clock.set(${START} + at)
          const [verdict] = await store.consume([{ key: 'client'.repeat(100), limit }], cost)
          story.push([verdict.allowed, verdict.remaining, verdict.retryAfterMs, verdict.resetAfterMs])
        }
        stories.push(story)
      }
      const store = new RedisStore(client, { prefix, leases: true })
      const limiter = new RateLimiter({ policy: '2/300ms', store, deadline: '5s' })
      const waited = []
      for (let i = 0; i < 3; i++) waited.push((await limiter.acquire('k', { timeout: '5s' })).source)
      const busy = new RateLimiter({ policy: '1000/1m', name: 'busy', store, deadline: '5s' })
      const sources = new Set()
      for (let i = 0; i < 200; i++) sources.add((await busy.consume('k')).source)
      await limiter.close()
      await busy.close()
      const semaphore = new Semaphore(client, 'jobs', { permits: 1, prefix })
      const lease = await semaphore.acquire()
      await lease.release()
      await semaphore.close()
      const rate = new SharedRateLimiter(client, 'calls', { prefix })
      await rate.setRate({ rate: 2, interval: '1s' })
      const taken = [await rate.tryAcquire(), await rate.tryAcquire(), await rate.tryAcquire()]
      await rate.close()
      const queue = new DelayQueue(client, 'mail', { prefix })
      await queue.push('hello')
      const [delivery] = await queue.receive()
      await delivery.ack()
      await queue.close()
      const live = new LivePolicies(client, { prefix, defaults: { api: '1/1h' } })
      await live.set('api', '7/1h')
      const { quota } = live.for('api')[0]
      await live.close()
      return { stories, waited, sources: [...sources].sort(), taken, payload: delivery.payload, quota }`,
    )
    expect(told).toEqual({
      stories: TOLD,
      waited: ['redis', 'redis', 'redis'],
      sources: ['lease', 'redis'],
      taken: [true, true, false],
      payload: 'hello',
      quota: 7,
    })
  })
})
