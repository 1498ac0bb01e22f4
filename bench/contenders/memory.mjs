// Contenders in one process. Each has the loop that its user would write, so that the JIT meets what it meets in a
// service.
import { MemoryStore as PeerStore } from 'express-rate-limit'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import { MemoryStore, parsePolicy, RateLimiter } from '../../dist/index.mjs'
import { answer, setup } from './answering.mjs'
import { policyOf } from './policy.mjs'
import { clients, PLENTY, WINDOW_MS } from './traffic.mjs'

/**
 * Decides for the keys from one place to another; how many passed.
 *
 * @typedef {(keys: string[], from: number, to: number) => number | Promise<number>} Loop
 * @type {Record<string, (quota: number, algorithm?: any) => Loop>}
 */
const contenders = {
  spillway(quota, algorithm) {
    const limiter = new RateLimiter({ policy: ourPolicy(quota, algorithm) })
    return async (keys, from, to) => {
      let passed = 0
      for (let i = from; i < to; i++) if ((await limiter.consume(keys[i])).allowed) passed++
      return passed
    }
  },

  'spillway decide'(quota, algorithm) {
    const limiter = new RateLimiter({ policy: ourPolicy(quota, algorithm) })
    return (keys, from, to) => {
      let passed = 0
      // Over memory a decision is there at once.
      for (let i = from; i < to; i++) if (/** @type {any} */ (limiter.decide(keys[i])).allowed) passed++
      return passed
    }
  },

  'spillway store'(quota, algorithm) {
    const store = new MemoryStore()
    const [limit] = parsePolicy(ourPolicy(quota, algorithm))
    return (keys, from, to) => {
      let passed = 0
      for (let i = from; i < to; i++) if (store.consume([{ key: keys[i], limit }], 1)[0].allowed) passed++
      return passed
    }
  },

  /**
   * The least that an awaited answer like ours takes: one counter, one clock reading, and an answer with all our
   * fields.
   */
  'our answer by hand'(quota) {
    /** @type {Map<string, { endsAt: number, count: number }>} */
    const counters = new Map()
    const limit = { quota, windowMs: WINDOW_MS }
    /** @param {string} key */
    function consume(key) {
      const now = Date.now()
      let counter = counters.get(key)
      if (counter === undefined) {
        counter = { endsAt: now + WINDOW_MS, count: 0 }
        counters.set(key, counter)
      }
      if (now >= counter.endsAt) {
        counter.endsAt = now + WINDOW_MS
        counter.count = 0
      }
      const allowed = counter.count < quota
      if (allowed) counter.count++
      const leftMs = (counter.endsAt - now) | 0
      const remaining = quota - counter.count
      const retryAfterMs = allowed ? 0 : leftMs
      const verdict = { limit, allowed, remaining, retryAfterMs, resetAfterMs: leftMs, delayMs: 0 }
      const verdicts = [verdict]
      const source = 'memory'
      return {
        limit: verdict.limit,
        allowed: verdict.allowed,
        remaining: verdict.remaining,
        retryAfterMs: verdict.retryAfterMs,
        resetAfterMs: verdict.resetAfterMs,
        delayMs: verdict.delayMs,
        key,
        cost: 1,
        verdicts,
        source,
        degraded: false,
        shadow: false,
      }
    }
    return async (keys, from, to) => {
      let passed = 0
      for (let i = from; i < to; i++) if ((await Promise.resolve(consume(keys[i]))).allowed) passed++
      return passed
    }
  },

  'express-rate-limit'(quota) {
    const store = new PeerStore()
    store.init(/** @type {any} */ ({ windowMs: WINDOW_MS }))
    return async (keys, from, to) => {
      let passed = 0
      for (let i = from; i < to; i++) if ((await store.increment(keys[i])).totalHits <= quota) passed++
      return passed
    }
  },

  'rate-limiter-flexible'(quota) {
    const limiter = new RateLimiterMemory({ points: quota, duration: WINDOW_MS / 1000 })
    return async (keys, from, to) => {
      let passed = 0
      for (let i = from; i < to; i++) {
        try {
          await limiter.consume(keys[i])
          passed++
        } catch {}
      }
      return passed
    }
  },

  'bare Map'(quota) {
    /** @type {Map<string, { endsAt: number, count: number }>} */
    const counters = new Map()
    return (keys, from, to) => {
      let passed = 0
      for (let i = from; i < to; i++) {
        const counter = counters.get(keys[i])
        const now = Date.now()
        if (counter === undefined || now >= counter.endsAt) {
          counters.set(keys[i], { endsAt: now + WINDOW_MS, count: 1 })
          passed++
        } else if (counter.count < quota) {
          counter.count++
          passed++
        }
      }
      return passed
    }
  },
}

const { contender, algorithm, traffic } = setup

/**
 * @param {number} quota
 * @param {any} algorithm
 */
function ourPolicy(quota, algorithm) {
  return policyOf(quota, algorithm, traffic === '100 000 keys' ? undefined : 1)
}

const CHUNK = 2000
const keys = traffic === '100 000 keys' ? clients(100_000) : new Array(CHUNK).fill('client:42')
const loop = contenders[contender](traffic === 'denied' ? 1 : PLENTY, algorithm)
let at = 0

answer({
  /** How many of 30 pass at quota 10, for each of two keys. */
  async check() {
    const loop = contenders[contender](10, algorithm)
    const passed = []
    for (const key of ['a', 'b']) passed.push(await loop(new Array(30).fill(key), 0, 30))
    return passed
  },

  async run({ ms }) {
    let decisions = 0
    let passed = 0
    const startedAt = performance.now()
    do {
      const to = Math.min(at + CHUNK, keys.length)
      passed += await loop(keys, at, to)
      decisions += to - at
      at = to === keys.length ? 0 : to
    } while (performance.now() - startedAt < ms)
    return { decisions, passed, ms: performance.now() - startedAt }
  },
})
