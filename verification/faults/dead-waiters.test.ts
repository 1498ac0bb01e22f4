import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { SharedRateLimiter } from '../../src/waiting/rate/shared-rate-limiter.js'
import { Semaphore } from '../../src/waiting/semaphore/semaphore.js'
import { Child } from '../../test/support/child.js'
import { eventually } from '../../test/support/eventually.js'
import { Lateness } from '../../test/support/lateness.js'
import { RedisServer } from '../../test/support/redis-server.js'
import { SteppedClock } from '../../test/support/stepped-clock.js'

jest.setTimeout(60_000)

let clock: SteppedClock
let redis: RedisServer
let admin: Redis
const children: Child[] = []
beforeEach(async () => {
  clock = await SteppedClock.make()
  redis = await RedisServer.start({ env: clock.env })
  admin = redis.client()
})
afterEach(async () => {
  for (const child of children.splice(0)) child.kill()
  await redis.stop()
  await clock.remove()
})

/** One unit in all, which stays taken until it is given back. */
interface Kind {
  readonly name: string
  /** A request of a process of its own. Resolves to what gives the unit back. */
  acquire(client: Redis): Promise<() => Promise<unknown>>
  /** The units that are free. */
  free(client: Redis): Promise<number>
  /** The same, as a program. */
  readonly program: string
  prepare?(): Promise<unknown>
}

const KINDS: readonly Kind[] = [
  {
    name: 'Semaphore',
    acquire: async client => {
      const lease = await new Semaphore(client, 'k', { permits: 1 }).acquire({ lease: '10m' })
      return () => lease.release()
    },
    free: client => new Semaphore(client, 'k', { permits: 1 }).availablePermits(),
    program: `import { Semaphore } from './src/waiting/semaphore/semaphore.ts'
      const acquire = client => new Semaphore(client, 'k', { permits: 1 }).acquire()`,
  },
  {
    name: 'SharedRateLimiter with release',
    prepare: () => new SharedRateLimiter(admin, 'k').setRate({ rate: 1, interval: '1h' }),
    acquire: async client => {
      const limiter = new SharedRateLimiter(client, 'k')
      await limiter.acquire()
      return () => limiter.release(1)
    },
    free: client => new SharedRateLimiter(client, 'k').availablePermits(),
    program: `import { SharedRateLimiter } from './src/waiting/rate/shared-rate-limiter.ts'
      const acquire = client => new SharedRateLimiter(client, 'k').acquire()`,
  },
  {
    name: 'RateLimiter.acquire',
    acquire: async client => {
      const limiter = new RateLimiter({ policy: '1/1h', store: new RedisStore(client), deadline: '5s' })
      await limiter.acquire('k')
      return () => limiter.refund('k')
    },
    free: async client => {
      const limiter = new RateLimiter({ policy: '1/1h', store: new RedisStore(client) })
      return Number((await limiter.peek('k')).allowed)
    },
    program: `import { RateLimiter } from './src/limiter/rate-limiter.ts'
      import { RedisStore } from './src/index.ts'
      const acquire = client => new RateLimiter({ policy: '1/1h', store: new RedisStore(client), deadline: '5s' }).acquire('k')`,
  },
]

const waitingIn = async () => {
  const [line] = await admin.keys('*{k}*:line')
  return line === undefined ? 0 : admin.zcard(line)
}
const waiting = (count: number) => eventually(`${count} wait`, async () => (await waitingIn()) === count)

/** A process that waits. */
async function waiter({ program }: Kind): Promise<Child> {
  const child = await Child.start(
    `import { Redis } from 'ioredis'\n${program}\nprocess.send('ready')\nawait acquire(new Redis(process.argv[2]))`,
    [redis.url],
  )
  children.push(child)
  return child
}

/**
 * How long, in ms, requests wait after the unit was given back, until the first has it; a late machine does not count.
 */
async function servedAfter(release: () => Promise<unknown>, served: Promise<unknown>): Promise<number> {
  const late = await Lateness.of(redis)
  const releasedAt = performance.now()
  await release()
  await served
  const tookMs = performance.now() - releasedAt
  return tookMs - (await late.stop())
}

describe.each(KINDS)('behind a dead waiter: $name', kind => {
  beforeEach(async () => {
    await kind.prepare?.()
  })

  test.each(['SIGKILL', 'SIGSTOP'] as const)(
    'a process that ends with %s while it waits costs a second',
    async signal => {
      const release = await kind.acquire(redis.client())
      const dead = await waiter(kind)
      await waiting(1)
      const served = kind.acquire(redis.client())
      await waiting(2)
      dead.kill(signal)
      expect(await servedAfter(release, served)).toBeLessThan(1200)
    },
  )

  test('ten dead processes in a row cost about a second each at most', async () => {
    const release = await kind.acquire(redis.client())
    const dead = Array.from({ length: 10 }, () => redis.client())
    for (const [i, client] of dead.entries()) {
      kind.acquire(client).catch(() => {})
      await waiting(i + 1)
    }
    const served = kind.acquire(redis.client())
    await waiting(11)
    for (const client of dead) client.disconnect()
    expect(await servedAfter(release, served)).toBeLessThan(10 * 1000)
  })

  test('an ask that its process gave up before it ended is not carried out when Redis goes on', async () => {
    // Redis knows the scripts: it needs no answer of the process that has ended.
    const release = await kind.acquire(redis.client())
    const other = kind.acquire(redis.client())
    await waiting(1)
    await release()
    await (await other)()
    expect(await kind.free(admin)).toBe(1)
    const source = `import { Redis } from 'ioredis'
      ${kind.program}
      const client = new Redis(process.argv[2])
      await client.ping()
      process.on('message', () => {
        acquire(client).then(() => process.exit(0), () => process.exit(0))
      })
      process.send('ready')`
    const child = await Child.start(source, [redis.url])
    children.push(child)
    redis.pause()
    try {
      child.process.send('go')
      expect(await child.ended).toBe(0)
    } finally {
      redis.unpause()
    }
    await admin.ping()
    expect(await kind.free(admin)).toBe(1)
  })
})

test('after the server’s clock was set forward by an hour, three who wait for a semaphore have their turns within 2 s', async () => {
  const [kind] = KINDS
  const release = await kind.acquire(redis.client())
  const served: Array<Promise<unknown>> = []
  for (let i = 0; i < 3; i++) {
    served.push(kind.acquire(redis.client()).then(giveBack => giveBack()))
    await waiting(i + 1)
  }
  // The line has ended by that clock, and so has the lease.
  await clock.set(3_600_000 + 1)
  expect(await servedAfter(release, Promise.all(served))).toBeLessThan(2000)
})
