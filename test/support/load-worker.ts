// A process whose limit follows its own load. A test forks it and sends it orders.
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { RateLimiter, RedisStore } from '../../src/index.js'
import { loadPolicy, processLoad } from '../../src/operating/adaptive/index.js'

/** `busyMs`: keeps the processor busy for so long. `consume`: asks so often. */
export interface LoadOrder {
  readonly busyMs?: number
  readonly consume?: number
}

export interface LoadAnswer {
  readonly factor: number
  readonly admitted: number
}

const [redisUrl, policy] = process.argv.slice(2)
const store = new RedisStore(new Redis(redisUrl))
const following = loadPolicy(policy, { load: processLoad(), min: 0.1 })
const limiter = new RateLimiter({ policy: following, store, deadline: '5s' })

process.on('message', async ({ busyMs = 0, consume = 0 }: LoadOrder) => {
  const until = performance.now() + busyMs
  while (performance.now() < until) {
    const pauseAt = performance.now() + 200
    while (performance.now() < pauseAt) {}
    // A turn of the event loop for what came meanwhile.
    await sleep(1)
  }
  let admitted = 0
  for (let i = 0; i < consume; i++) if ((await limiter.consume('everybody')).allowed) admitted++
  process.send?.({ factor: following.factor, admitted } satisfies LoadAnswer)
})
process.once('disconnect', () => process.exit(0))
process.send?.('ready')
