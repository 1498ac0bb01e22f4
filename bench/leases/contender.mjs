// One contender: decides one busy key for a second, and tells how often it did and how long the slowest of a hundred
// took.
import { MemoryStore as PeerStore } from 'express-rate-limit'
import { Redis } from 'ioredis'
import { RateLimiter, RedisStore } from '../../dist/index.mjs'

const [, , name, port] = process.argv
const FOR_MS = 1000
// Far above the traffic: nothing is ever refused.
const policy = '1000000000/1m fixed-window'
const client = name.includes('lease') ? new Redis(Number(port)) : undefined
const store = client && new RedisStore(client, { leases: true, prefix: `speed${process.pid}` })
const limiter = new RateLimiter({ policy, ...(store && { store }) })
const peer = new PeerStore()
peer.init(/** @type {never} */ ({ windowMs: 60_000 }))

/** @type {Record<string, () => unknown>} */
const acts = {
  'decide from a lease': () => limiter.decide('k'),
  'awaited consume from a lease': () => limiter.consume('k'),
  'awaited consume in memory': () => limiter.consume('k'),
  'express-rate-limit, awaited increment': () => peer.increment('k'),
}
const act = acts[name]
const awaited = name.includes('awaited')

/** @param {number} forMs */
const run = async forMs => {
  const times = new Float64Array(200_000)
  let timed = 0
  let count = 0
  const endsAt = performance.now() + forMs
  const startedAt = performance.now()
  for (let now = startedAt; now < endsAt; now = performance.now()) {
    for (let i = 0; i < 500; i++) {
      if (awaited) await act()
      else {
        const answer = act()
        // Before the first lease.
        if (answer instanceof Promise) await answer
      }
    }
    count += 500
    if (timed < times.length) {
      const before = performance.now()
      if (awaited) await act()
      else act()
      times[timed++] = performance.now() - before
    }
    // Answers of Redis are read.
    if (timed % 16 === 0) await new Promise(resolve => setImmediate(resolve))
  }
  const elapsedMs = performance.now() - startedAt
  const sorted = times.subarray(0, timed).sort()
  return { perSecond: (count / elapsedMs) * 1000, p99Us: sorted[Math.floor(timed * 0.99)] * 1000 }
}

await run(500)
const speed = await run(FOR_MS)
process.send?.(speed)
await limiter.close()
await store?.close()
client?.disconnect()
peer.shutdown?.()
process.disconnect()
