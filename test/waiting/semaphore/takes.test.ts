import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { LeaseLostError } from '../../../src/limiter/core/errors.js'
import { semaphoreTake } from '../../../src/redis/scripts.js'
import type { Lease } from '../../../src/waiting/semaphore/lease.js'
import { Semaphore, type SemaphoreOptions } from '../../../src/waiting/semaphore/semaphore.js'
import { eventually } from '../../support/eventually.js'
import { randomFrom } from '../../support/random.js'
import { TcpProxy } from '../../support/tcp-proxy.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
let admin: Redis
beforeAll(() => {
  admin = redis.client()
})

let names = 0
const fresh = () => `takes-${names++}`

/** A semaphore of a connected client. */
async function open(name: string, options: SemaphoreOptions = { permits: 3 }, client = redis.client()) {
  await client.ping()
  return new Semaphore(client, name, options)
}

/** A client that notes its takes, and can send each again. */
function recorder() {
  const client = redis.client()
  const sent: (readonly unknown[])[] = []
  const evalsha = client.evalsha.bind(client) as (...args: unknown[]) => Promise<unknown>
  Object.assign(client, {
    evalsha: (...args: unknown[]) => {
      if (args[0] === semaphoreTake.sha1) sent.push(args)
      return evalsha(...args)
    },
  })
  return { client, sent, again: (i: number) => evalsha(...sent[i]) }
}

async function calls(command: string): Promise<number> {
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(await admin.info('commandstats'))?.[1] ?? 0)
}

describe('a permit for which nobody waits', () => {
  test('costs one short script and one ZREM', async () => {
    const semaphore = await open(fresh())
    await (await semaphore.acquire()).release()
    await admin.config('RESETSTAT')
    for (let i = 0; i < 100; i++) expect(await (await semaphore.acquire()).release()).toBe(true)
    expect([await calls('evalsha'), await calls('zrem')]).toEqual([100, 100])
    // Inside each script: ZMSCORE, TIME, ZCOUNT, ZADD.
    expect([await calls('zmscore'), await calls('zadd'), await calls('hset')]).toEqual([100, 100, 0])
    expect(await calls('subscribe')).toBe(0)
    expect(await semaphore.availablePermits()).toBe(3)
  })

  test('counts together with all others, also those of several permits, and tokens rise', async () => {
    const name = fresh()
    const semaphore = await open(name)
    await (await semaphore.acquire()).release()
    const other = new Semaphore(redis.client(), name)
    const two = await other.acquire({ permits: 2 })
    const one = await semaphore.acquire()
    expect(await semaphore.tryAcquire()).toBeNull()
    expect(await other.tryAcquire()).toBeNull()
    expect(one.token > two.token).toBe(true)
    expect((await other.holders()).map(({ id, permits }) => [id, permits]).sort()).toEqual(
      [
        [one.id, 1],
        [two.id, 2],
      ].sort(),
    )
    expect([await one.release(), await one.release(), await two.release()]).toEqual([true, false, true])
    expect(await other.availablePermits()).toBe(3)
    await semaphore.setPermits(1)
    const last = await semaphore.acquire()
    expect(last.token > one.token).toBe(true)
    expect(await semaphore.tryAcquire()).toBeNull()
  })

  test('is requested together with others: one call for all requests of a turn, in their order', async () => {
    const semaphore = await open(fresh(), { permits: 50 })
    const first = semaphore.acquire()
    const rest = Array.from({ length: 49 }, () => semaphore.acquire())
    await admin.config('RESETSTAT')
    const leases = await Promise.all([first, ...rest])
    expect(await calls('evalsha')).toBeLessThanOrEqual(2)
    expect(leases.every(({ token }, i) => i === 0 || token > leases[i - 1].token)).toBe(true)
    expect(new Set(leases.map(({ id }) => id)).size).toBe(50)
  })

  test('goes to the first waiter, however it was taken', async () => {
    const name = fresh()
    const holder = await open(name, { permits: 1 })
    const held = await holder.acquire()
    const others = [new Semaphore(redis.client(), name), new Semaphore(redis.client(), name)]
    const order: number[] = []
    const waiting: Promise<void>[] = []
    for (const [i, semaphore] of others.entries()) {
      waiting.push(semaphore.use(async () => void order.push(i)))
      await eventually('waits', async () => (await holder.waiting()) === i + 1)
    }
    const again = holder.use(async () => void order.push(2))
    await eventually('waits', async () => (await others[0].waiting()) === 3)
    expect(await held.release()).toBe(true)
    await Promise.all([...waiting, again])
    expect(order).toEqual([0, 1, 2])
  })
})

describe('a lease that was taken while nobody waits', () => {
  test('is lost for its holder when it is taken over, and the holder is notified at once', async () => {
    const name = fresh()
    const semaphore = await open(name)
    const lease = await semaphore.acquire()
    const { signal } = lease
    await eventually('listens', async () => (await admin.pubsub('CHANNELS')).length > 0)
    const other = new Semaphore(redis.client(), name)
    const taken = (await other.resume(lease.id)) as Lease
    expect([taken.permits, taken.token > lease.token, taken.id === lease.id]).toEqual([1, true, false])
    await eventually('lost', async () => signal.aborted)
    expect(signal.reason).toBeInstanceOf(LeaseLostError)
    expect(await lease.release()).toBe(false)
    expect(await semaphore.availablePermits()).toBe(2)
    expect(await taken.release()).toBe(true)
  })

  test('is not ended by its former holder, even if that was not notified', async () => {
    const name = fresh()
    const { client } = recorder()
    Object.assign(client, { duplicate: undefined })
    const semaphore = await open(name, { permits: 3 }, client)
    const lease = await semaphore.acquire()
    const taken = (await new Semaphore(redis.client(), name).resume(lease.id)) as Lease
    expect(await lease.release()).toBe(false)
    expect(await taken.renew()).toBe(true)
    expect(await semaphore.availablePermits()).toBe(2)
  })

  test('ends by force, by delete and by its deadline', async () => {
    const name = fresh()
    const semaphore = await open(name)
    const [forced, short, deleted] = [
      await semaphore.acquire(),
      await semaphore.acquire({ lease: 50, renew: false }),
      await semaphore.acquire(),
    ]
    const signals = [forced.signal, deleted.signal]
    await eventually('listens', async () => (await admin.pubsub('CHANNELS')).length > 0)
    const other = new Semaphore(redis.client(), name)
    expect([await other.forceRelease(forced.id), await other.forceRelease(forced.id)]).toEqual([true, false])
    await eventually('lost', async () => signals[0].aborted)
    await eventually('over', async () => !short.held)
    // The holder counts its lease as over a moment before the server does.
    await eventually('its permit is back', async () => (await other.availablePermits()) === 2)
    expect(await other.delete()).toBe(true)
    await eventually('lost', async () => signals[1].aborted)
    const left = await admin.keys(`spillway:{${name}}:semaphore*`)
    expect(left.filter(key => !key.includes(':sent:'))).toEqual([])
  })

  test('is renewed', async () => {
    const semaphore = await open(fresh())
    const lease = await semaphore.acquire({ lease: 1500 })
    const first = lease.expiresAt
    await eventually('it is renewed twice', async () => lease.expiresAt >= first + 1000)
    expect(lease.held).toBe(true)
    expect(await semaphore.availablePermits()).toBe(2)
    expect(await lease.release()).toBe(true)
  })
})

describe('a take that arrives again', () => {
  test('takes nothing, and gets the same answer while its lease lasts', async () => {
    const name = fresh()
    const { client, sent, again } = recorder()
    const semaphore = await open(name, { permits: 3 }, client)
    sent.length = 0
    const lease = await semaphore.acquire()
    const [token, expiresAt] = (await again(0)) as number[]
    // Another token, which is no older than what its holder has seen since.
    expect([BigInt(token) > lease.token, expiresAt]).toEqual([true, lease.expiresAt])
    expect(await semaphore.availablePermits()).toBe(2)
    expect(await lease.release()).toBe(true)
  })

  test('takes nothing after its lease has ended by itself: then it comes too late', async () => {
    const { client, sent, again } = recorder()
    const semaphore = await open(fresh(), { permits: 1 }, client)
    const lease = await semaphore.acquire({ lease: 1000, renew: false })
    await eventually('it has ended', async () => !lease.held && (await semaphore.availablePermits()) === 1)
    expect(sent).toHaveLength(1)
    // SHA, the number of keys, three keys, the length of the lease, and the last moment: a ms or two after its end.
    const lastMoment = Number(sent[0][6])
    expect(lastMoment).toBeGreaterThan(Date.now() - 60_000)
    await eventually('its last moment is over', async () => Number((await admin.time())[0]) * 1000 > lastMoment)
    expect(await again(0)).toEqual([expect.any(Number)])
    expect(await semaphore.availablePermits()).toBe(1)
  })

  describe('as its client must expect after a lost connection', () => {
    test('takes nothing after its lease was released', async () => {
      const { client, again } = recorder()
      const semaphore = await open(fresh(), { permits: 1 }, client)
      const taken = semaphore.acquire()
      client.emit('close')
      const lease = await taken
      expect(await lease.release()).toBe(true)
      expect(await again(0)).toBe(0)
      expect(await semaphore.availablePermits()).toBe(1)
    })

    test('takes nothing after it was refused, and all permits have come back', async () => {
      const name = fresh()
      const { client, again } = recorder()
      const held = await (await open(name, { permits: 1 })).acquire()
      const taken = (await open(name, {}, client)).tryAcquire()
      client.emit('close')
      expect(await taken).toBeNull()
      expect(await held.release()).toBe(true)
      expect(await again(0)).toBe(0)
      expect(await (await open(name, {})).availablePermits()).toBe(1)
    })

    test('takes nothing for a request that waits since, and got its permit in the line', async () => {
      const name = fresh()
      const { client, again } = recorder()
      const semaphore = await open(name, { permits: 1 })
      const held = await semaphore.acquire()
      const taken = (await open(name, {}, client)).acquire()
      client.emit('close')
      await eventually('waits', async () => (await semaphore.waiting()) === 1)
      await held.release()
      expect(await (await taken).release()).toBe(true)
      expect(await again(0)).toBe(0)
      expect(await semaphore.availablePermits()).toBe(1)
    })
  })

  test('is refused once by a script if nothing is free and the caller does not wait', async () => {
    const name = fresh()
    const { client, sent } = recorder()
    const held = await (await open(name, { permits: 1 })).acquire()
    const semaphore = await open(name, {}, client)
    expect(await semaphore.tryAcquire()).toBeNull()
    expect(sent).toHaveLength(1)
    await admin.config('RESETSTAT')
    expect(await semaphore.tryAcquire()).toBeNull()
    expect(await calls('evalsha')).toBe(1)
    await held.release()
  })
})

describe('a connection that is cut', () => {
  test('rejects no request, and no permit is taken or given back twice', async () => {
    const name = fresh()
    const proxy = await TcpProxy.start(redis.port)
    const client = redis.client({ port: proxy.port, retryStrategy: () => 5 })
    const semaphore = await open(name, { permits: 2 }, client)
    let cuts = 0
    // Real time: a connection is cut wherever it happens to be.
    const cutting = setInterval(() => {
      proxy.cut()
      cuts++
    }, 7)
    const released: boolean[] = []
    while (released.length < 30 || cuts < 30) released.push(await (await semaphore.acquire()).release())
    clearInterval(cutting)
    expect(released).toEqual(released.map(() => true))
    expect(await new Semaphore(admin, name).availablePermits()).toBe(2)
    client.disconnect()
    await proxy.stop()
  })

  test.each<[string, (proxy: TcpProxy) => void]>([
    ['before it reaches Redis', proxy => proxy.swallow()],
    ['before its answer comes', proxy => (proxy.delayMs = () => 10_000)],
  ])('loses no release, %s, whose client rejects what was under way', async (_, hold) => {
    const name = fresh()
    const proxy = await TcpProxy.start(redis.port)
    const client = redis.client({ port: proxy.port, retryStrategy: () => 5, maxRetriesPerRequest: 0 })
    const semaphore = await open(name, { permits: 1 }, client)
    const lease = await semaphore.acquire({ lease: '1m' })
    hold(proxy)
    const released = lease.release()
    await sleep(50)
    proxy.cut()
    proxy.release()
    proxy.delayMs = () => 0
    expect(await released).toBe(true)
    await eventually('it is back', async () => (await new Semaphore(admin, name).availablePermits()) === 1)
    client.disconnect()
    await proxy.stop()
  })
})

test('four clients that take one or two permits in any way never hold more than all permits', async () => {
  const name = fresh()
  const permits = 4
  const random = randomFrom('lanes')
  let [inside, most, turns] = [0, 0, 0]
  const until = performance.now() + 1500
  const lane = async (semaphore: Semaphore) => {
    while (performance.now() < until || turns < 120) {
      const wanted = random.integer(1, 10) <= 8 ? 1 : 2
      const lease =
        random.integer(1, 10) <= 3
          ? await semaphore.tryAcquire({ permits: wanted })
          : await semaphore.acquire({ permits: wanted })
      if (lease === null) continue
      inside += wanted
      most = Math.max(most, inside)
      if (random.integer(1, 10) <= 2) await sleep(1)
      inside -= wanted
      expect(await lease.release()).toBe(true)
      turns++
      if (random.integer(1, 10) <= 1) await sleep(3)
    }
  }
  const objects = await Promise.all(Array.from({ length: 4 }, () => open(name, { permits })))
  // Only one process at first: then nobody waits, and somebody does when the others come.
  await Promise.all(
    objects.flatMap((each, i) => [sleep(i * 200).then(() => lane(each)), sleep(i * 250).then(() => lane(each))]),
  )
  expect(most).toBeLessThanOrEqual(permits)
  expect(turns).toBeGreaterThanOrEqual(120)
  expect(await objects[0].availablePermits()).toBe(permits)
})
