// Clients that ask for far more than their quota, on Redis. Each sends its requests evenly, one after another.
import { Redis } from 'ioredis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { RateLimiter, RedisStore } from '../../dist/index.mjs'
import { answer, setup } from './answering.mjs'
import { decidedByStore, PATIENT, passes } from './passing.mjs'

const QUOTA = 100
const CLIENTS = 10
const { contender, algorithm, windowMs, port } = setup
const client = new Redis({ port })

/**
 * Decides for a key: whether it passed, and whether Redis was asked, if that is known here.
 *
 * @type {Record<string, () => (key: string) => Promise<{ passed: boolean, asked?: boolean }>>}
 */
const contenders = {
  spillway() {
    const policy = { quota: QUOTA, window: windowMs, algorithm }
    const limiter = new RateLimiter({ policy, store: new RedisStore(client), ...PATIENT })
    return async key => {
      const { allowed, source } = decidedByStore(await limiter.consume(key))
      return { passed: allowed, asked: source === 'redis' }
    }
  },

  // With its own cache of denials, as its documentation advises for such traffic.
  'rate-limiter-flexible'() {
    const limiter = new RateLimiterRedis({
      storeClient: client,
      points: QUOTA,
      duration: windowMs / 1000,
      inMemoryBlockOnConsumed: QUOTA,
    })
    const decide = passes(limiter)
    return async key => ({ passed: await decide(key) })
  },
}

const decide = contenders[contender]()
const latencies = new Float64Array(1 << 20)

answer({
  /** Each client asks for so many times 100 a second. */
  async run({ seconds, times }) {
    let refusals = 0
    let passed = 0
    let asked = 0
    let askedForRefusal = 0
    let known = true
    const perClient = QUOTA * times * seconds
    const startedAt = performance.now()

    /** One client: as many requests as are due by now, then waits for the next turn. */
    const run = async (/** @type {string} */ key) => {
      for (let sent = 0; sent < perClient; ) {
        const due = Math.min(perClient, ((performance.now() - startedAt) / 1000) * QUOTA * times)
        for (; sent < due; sent++) {
          const askedAt = performance.now()
          const answer = await decide(key)
          const took = performance.now() - askedAt
          if (answer.asked === undefined) known = false
          if (answer.asked) asked++
          if (answer.passed) passed++
          else {
            if (answer.asked) askedForRefusal++
            latencies[refusals++ & (latencies.length - 1)] = took
          }
        }
        await new Promise(resolve => setImmediate(resolve))
      }
    }
    await Promise.all(Array.from({ length: CLIENTS }, (_, i) => run(`client:${i}`)))
    const sorted = latencies.slice(0, Math.min(refusals, latencies.length)).sort()
    const decisions = perClient * CLIENTS
    return {
      decisions,
      passed,
      refusals,
      ms: performance.now() - startedAt,
      asked: known ? asked : undefined,
      askedForRefusal: known ? askedForRefusal : undefined,
      p50: sorted[Math.floor((refusals - 1) * 0.5)] * 1000,
      p99: sorted[Math.floor((refusals - 1) * 0.99)] * 1000,
    }
  },
})
