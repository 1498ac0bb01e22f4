import { runInNewContext } from 'node:vm'
import { describe, expect, test } from '@jest/globals'
import { START, STORIES } from '../support/stories.js'
import { bundled, runOnWeb, webGlobals } from './bundling.js'

/** Tells every story to a memory store, and gives what it answered: [allowed, remaining, retryAfterMs (null: never), resetAfterMs]. */
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
      import { MemoryStore } from './src/stores/memory/memory-store.ts'
      import { ManualClock } from './src/testing.ts'
      import { parsePolicy } from './src/core/limit.ts'
      import * as algorithms from './src/algorithms/registry.ts'
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
