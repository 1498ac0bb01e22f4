import type { Redis } from 'ioredis'
import { RedisStore } from '../../../src/index.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { ManualClock } from '../../../src/testing.js'
import { SharedRateLimiter } from '../../../src/waiting/rate/shared-rate-limiter.js'
import type { Lease } from '../../../src/waiting/semaphore/lease.js'
import { Semaphore } from '../../../src/waiting/semaphore/semaphore.js'
import { lengthOf } from '../../support/lines.js'
import { describeWaiting } from './waiting-contract.js'

const START = 1_700_000_000_000

describeWaiting('RateLimiter.acquire', async (client, name, units) => {
  const store = new RedisStore(client, { prefix: name, clock: new ManualClock(START) })
  const limiter = new RateLimiter({ policy: `${units}/1h`, store, deadline: '5s', denyCache: false })
  return {
    acquire: (cost, options) => limiter.acquire('k', { ...options, cost }),
    tryAcquire: async () => (await limiter.consume('k')).allowed,
    giveBack: cost => limiter.refund('k', cost),
    available: async () => (await limiter.peek('k', 0)).remaining,
    waiting: () => lengthOf(client as Redis, `${name}:*:line`),
    close: () => limiter.close(),
  }
})

describeWaiting('SharedRateLimiter', async (client, name, units) => {
  const limiter = new SharedRateLimiter(client, name, { clock: new ManualClock(START) })
  await limiter.trySetRate({ rate: units, interval: '1h' })
  return {
    acquire: (permits, options) => limiter.acquire(permits, options),
    tryAcquire: () => limiter.tryAcquire(),
    giveBack: permits => limiter.release(permits),
    available: () => limiter.availablePermits(),
    waiting: () => lengthOf(client as Redis, `spillway:{${name}}:rate:line`),
    close: () => limiter.close(),
  }
})

describeWaiting('Semaphore', async (client, name, units) => {
  const semaphore = new Semaphore(client, name, { permits: units })
  const leases: Lease[] = []
  return {
    async acquire(permits, options) {
      leases.push(await semaphore.acquire({ ...options, permits }))
    },
    async tryAcquire() {
      const lease = await semaphore.tryAcquire()
      if (lease) leases.push(lease)
      return lease !== null
    },
    giveBack: permits => Promise.all(leases.splice(0, permits).map(lease => lease.release())),
    available: () => semaphore.availablePermits(),
    waiting: () => semaphore.waiting(),
    close: () => semaphore.close(),
  }
})
