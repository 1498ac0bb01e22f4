import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { CostError, LeaseLostError, StoreError } from '../../../src/limiter/core/errors.js'
import { semaphoreAsk, semaphoreRenew } from '../../../src/redis/scripts.js'
import type { Lease } from '../../../src/waiting/semaphore/lease.js'
import { Semaphore } from '../../../src/waiting/semaphore/semaphore.js'
import { eventually } from '../../support/eventually.js'
import { Lateness } from '../../support/lateness.js'
import { TcpProxy } from '../../support/tcp-proxy.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
let admin: Redis
beforeAll(() => {
  admin = redis.client()
})

let names = 0
const fresh = () => `losses-${names++}`
const keyOf = (name: string, part = '') => `spillway:{${name}}:semaphore${part}`

/** Resolves when a process listens that did not while these channels were all; each process has one of its own. */
const listens = (channels: unknown[]) =>
  eventually('listens', async () => (await admin.pubsub('CHANNELS')).some(channel => !channels.includes(channel)))

/** Scripts that a client is asked to run, by their hash. */
function callsOf(client: Redis): string[] {
  const calls: string[] = []
  const evalsha = client.evalsha.bind(client) as (...all: unknown[]) => Promise<unknown>
  Object.assign(client, {
    evalsha: (...args: unknown[]) => {
      calls.push(String(args[0]))
      return evalsha(...args)
    },
  })
  return calls
}

describe('a lease that Redis has forgotten', () => {
  test('is lost at the first check after a reconnect, by one call, and is not taken back', async () => {
    const proxy = await TcpProxy.start(redis.port)
    const client = redis.client({ port: proxy.port, retryStrategy: () => 20 })
    const calls = callsOf(client)
    // No message passes the proxy: the connection for commands causes the check.
    Object.assign(client, { duplicate: (options: object) => redis.client(options) })
    const name = fresh()
    const semaphore = new Semaphore(client, name, { permits: 1 })
    const channels = await admin.pubsub('CHANNELS')
    const lease = await semaphore.acquire()
    const { signal } = lease
    await listens(channels)
    // A process that begins to listen checks once, because it may have missed messages. Here the lease still exists.
    await eventually('it has looked', async () => calls.includes(semaphoreRenew.sha1))
    await client.ping()
    await admin.del(keyOf(name), keyOf(name, ':open'))
    calls.length = 0
    const late = await Lateness.of(redis)
    let readyAt = 0
    client.once('ready', () => {
      readyAt = performance.now()
    })
    const lost = once(signal, 'abort')
    proxy.cut()
    await lost
    const tookMs = performance.now() - readyAt
    expect(tookMs).toBeLessThan(100 + (await late.stop()))
    expect(readyAt).toBeGreaterThan(0)
    expect(signal.reason).toBeInstanceOf(LeaseLostError)
    expect(calls).toEqual([semaphoreRenew.sha1])
    expect(await lease.release()).toBe(false)
    expect(await semaphore.availablePermits()).toBe(1)
    await proxy.stop()
  })

  test('is lost when the connection that listens comes back, because messages may have been missed', async () => {
    const name = fresh()
    const client = redis.client()
    const calls = callsOf(client)
    let readyAt = 0
    const duplicate = client.duplicate.bind(client)
    Object.assign(client, {
      duplicate: (options: object) => {
        const listening = redis.track(duplicate(options))
        listening.on('ready', () => {
          readyAt = performance.now()
        })
        return listening
      },
    })
    const semaphore = new Semaphore(client, name, { permits: 1 })
    const channels = await admin.pubsub('CHANNELS')
    const lease = await semaphore.acquire()
    const { signal } = lease
    await listens(channels)
    // A process that begins to listen checks once. If that came after the keys are deleted, it would find the lease
    // lost before any connection is.
    await eventually('it has looked', async () => calls.includes(semaphoreRenew.sha1))
    await client.ping()
    await admin.del(keyOf(name, ':open'))
    readyAt = 0
    const late = await Lateness.of(redis)
    const lost = once(signal, 'abort')
    await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await lost
    const tookMs = performance.now() - readyAt
    expect(tookMs).toBeLessThan(100 + (await late.stop()))
    expect(readyAt).toBeGreaterThan(0)
  })
})

describe('renew', () => {
  test('ends with the lease at the latest where Redis does not answer', async () => {
    const proxy = await TcpProxy.start(redis.port)
    const client = redis.client({ port: proxy.port })
    const semaphore = new Semaphore(client, fresh(), { permits: 1 })
    const lease = await semaphore.acquire({ lease: 400, renew: false })
    proxy.swallow()
    const late = await Lateness.of()
    const askedAt = performance.now()
    const outcome = await lease.renew().catch(error => error)
    const tookMs = performance.now() - askedAt
    expect(tookMs).toBeLessThan(450 + (await late.stop()))
    expect(outcome === false || outcome instanceof StoreError).toBe(true)
    client.disconnect()
    await proxy.stop()
  })

  test('of other semaphores does not fail if one has foreign values in its keys', async () => {
    const client = redis.client()
    const [good, bad] = [fresh(), fresh()]
    const kept = await new Semaphore(client, good, { permits: 1 }).acquire({ lease: 1200 })
    const broken = await new Semaphore(client, bad, { permits: 1 }).acquire({ lease: 1200 })
    await admin.set(keyOf(bad, ':open'), 'something else')
    await expect(broken.renew()).rejects.toThrow(StoreError)
    await expect(broken.renew()).rejects.toThrow(/WRONGTYPE/)
    await eventually('the lease that is not renewed ends', async () => !broken.held)
    // It is the older one.
    expect(kept.held).toBe(true)
    await kept.release()
  })
})

describe('an ask that comes twice', () => {
  test.each([
    ['', undefined],
    [' also when idleTtl was over in between', 50],
  ])('counts once: a grant, a refusal, a release;%s', async (_, idleTtl) => {
    const name = fresh()
    const client = redis.client()
    const semaphore = new Semaphore(client, name, { permits: 2, idleTtl })
    // Shorter ones are taken in the line, which this is about.
    const options = { permits: 2, lease: 999 }
    const witness = new Semaphore(redis.client(), name, { idleTtl })
    // The server learns the scripts.
    await (await semaphore.acquire(options)).release()
    const evalsha = client.evalsha.bind(client) as (...all: unknown[]) => Promise<unknown>
    const copies: boolean[] = []
    Object.assign(client, {
      evalsha: async (...args: unknown[]) => {
        const reply = await evalsha(...args)
        if (args[0] !== semaphoreAsk.sha1) return reply
        // A copy of the request comes so much later.
        await sleep(120)
        const again = await evalsha(...args)
        copies.push(String(again).split(' ')[1] === String(reply).split(' ')[1])
        return reply
      },
    })
    const lease = await semaphore.acquire(options)
    expect([await witness.availablePermits(), await witness.waiting()]).toEqual([0, 0])
    expect(await semaphore.tryAcquire(options)).toBeNull()
    expect([await witness.availablePermits(), await witness.waiting()]).toEqual([0, 0])
    expect(await lease.release()).toBe(true)
    // Without permits, all that the semaphore was has gone with its idleTtl.
    if (idleTtl === undefined) expect(await witness.availablePermits()).toBe(2)
    expect(copies.length).toBeGreaterThanOrEqual(2)
    expect(copies.slice(0, 2)).toEqual([true, true])
  })
})

describe('lowering the permits below the request of two thousand waiters', () => {
  test('rejects them in batches: a few calls, not one for each', async () => {
    const name = fresh()
    const client = redis.client()
    const semaphore = new Semaphore(client, name, { permits: 10 })
    const held = await semaphore.acquire({ permits: 10 })
    const all = Array.from({ length: 2000 }, () => semaphore.acquire({ permits: 5 }).catch(error => error))
    await eventually('all wait', async () => (await semaphore.waiting()) === 2000)
    const calls = callsOf(client)
    await new Semaphore(admin, name).setPermits(4)
    const errors = await Promise.all(all)
    expect(errors.every(error => error instanceof CostError)).toBe(true)
    await eventually('have left', async () => (await admin.zcard(keyOf(name, ':line'))) === 0)
    expect(calls.filter(sha1 => sha1 === semaphoreAsk.sha1).length).toBeLessThanOrEqual(12)
    expect(await held.release()).toBe(true)
    expect(await semaphore.availablePermits()).toBe(4)
  })
})

describe('the state of another version', () => {
  test('is refused with an error that names both versions, and is not changed', async () => {
    const name = fresh()
    await admin.hset(keyOf(name), 'permits', 3, 'used', 0)
    const semaphore = new Semaphore(redis.client(), name, { permits: 1 })
    await expect(semaphore.acquire()).rejects.toThrow(/has version 1, this process expects version 5/)
    await expect(semaphore.permits()).rejects.toThrow(StoreError)
    expect(await admin.hgetall(keyOf(name))).toEqual({ permits: '3', used: '0' })
  })
})

describe('a permit requested while another is granted or given up', () => {
  test('is granted in its turn', async () => {
    const semaphore = new Semaphore(redis.client(), fresh(), { permits: 1 })
    const held = await semaphore.acquire()
    const abort = new AbortController()
    const again: Promise<Lease>[] = []
    abort.signal.addEventListener('abort', () => again.push(semaphore.acquire()))
    const left = semaphore.acquire({ signal: abort.signal }).catch(error => error)
    const chain = (depth: number): Promise<number> =>
      semaphore.use(async () => depth).then(done => (done === 0 ? 0 : chain(done - 1)))
    const chained = chain(5)
    abort.abort()
    await left
    await held.release()
    expect(again).toHaveLength(1)
    await (await again[0]).release()
    expect(await chained).toBe(0)
    expect(await semaphore.availablePermits()).toBe(1)
  })
})

describe('fencing tokens', () => {
  test('grow while the keys live although the clock goes back, and exceed those that the process has seen after the keys are lost', async () => {
    const name = fresh()
    const semaphore = new Semaphore(redis.client(), name, { permits: 1 })
    await (await semaphore.acquire()).release()
    // As if the clock had been an hour ahead.
    const ahead = BigInt(Date.now() + 3_600_000) * 1000n
    await admin.zadd(keyOf(name, ':open'), String(ahead), '!last')
    const first = await semaphore.acquire()
    expect(first.token > ahead).toBe(true)
    const second = await semaphore.resume(first.id)
    expect(second!.token > first.token).toBe(true)
    await admin.del(keyOf(name), keyOf(name, ':open'))
    const third = await semaphore.acquire()
    expect(third.token > second!.token).toBe(true)
  })
})
