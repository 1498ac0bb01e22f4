// What a key costs in the process: the heap and what hangs on it, before and after so many keys were asked for once.
import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import { MemoryStore as PeerStore } from 'express-rate-limit'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import { RateLimiter } from '../../dist/index.mjs'
import { answer, setup } from './answering.mjs'
import { WINDOW_MS } from './traffic.mjs'

/** Few, so that a bucket does not regain what was spent while the others are being asked for. */
const QUOTA = 10

/** @type {Record<string, (algorithm: any) => (key: string) => unknown>} */
const contenders = {
  spillway(algorithm) {
    const limiter = new RateLimiter({ policy: { quota: QUOTA, window: WINDOW_MS, algorithm } })
    return key => limiter.consume(key)
  },
  'express-rate-limit'() {
    const store = new PeerStore()
    store.init(/** @type {any} */ ({ windowMs: WINDOW_MS }))
    return key => store.increment(key)
  },
  'rate-limiter-flexible'() {
    const limiter = new RateLimiterMemory({ points: QUOTA, duration: WINDOW_MS / 1000 })
    return key => limiter.consume(key)
  },
  'koa-ratelimit'() {
    const Limiter = createRequire(import.meta.url)('koa-ratelimit/limiter/memory')
    const db = new Map()
    return key => new Limiter({ id: key, db, max: QUOTA, duration: WINDOW_MS }).get()
  },
  // What there is without any of them: the keys themselves, in a Map.
  'bare Map of keys'() {
    const keys = new Map()
    return key => keys.set(key, 1)
  },
}

/**
 * Addresses, as most keys are, of 10 to 14 characters; and in one piece, as a socket gives them, not joined from parts.
 */
const address = (/** @type {number} */ i) =>
  Buffer.from(`10.${100 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`).toString('latin1')

/** What is left when collecting finds nothing more: what is finalised in the background goes a little later. */
async function usedBytes() {
  let least = Number.POSITIVE_INFINITY
  for (let idle = 0; idle < 5; idle++) {
    global.gc?.()
    await sleep(20)
    const { heapUsed, external } = process.memoryUsage()
    if (heapUsed + external < least - 4096) idle = 0
    least = Math.min(least, heapUsed + external)
  }
  return least
}

answer({
  async run({ keys }) {
    const decide = contenders[setup.contender](setup.algorithm)
    for (let i = 0; i < 100; i++) await decide(`warm-up ${i}`)
    const before = await usedBytes()
    for (let i = 0; i < keys; i++) await decide(address(i))
    const after = await usedBytes()
    // Asked once more, so that it is held until here.
    await decide('warm-up 0')
    return (after - before) / keys
  },
})
