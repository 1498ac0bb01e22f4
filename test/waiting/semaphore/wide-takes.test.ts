import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { SharedPlaces } from '../../../src/http/concurrency/shared-places.js'
import { TimeoutError } from '../../../src/limiter/core/errors.js'
import { guardRedis } from '../../../src/redis/guarded-redis.js'
import { semaphoreAsk, semaphoreTake } from '../../../src/redis/scripts.js'
import { type AcquireOptions, Semaphore, type SemaphoreOptions } from '../../../src/waiting/semaphore/semaphore.js'
import { eventually } from '../../support/eventually.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
let admin: Redis
beforeAll(() => {
  admin = redis.client()
})

let names = 0
const fresh = () => `wide-${names++}`

/** A client that counts its calls of scripts, and can hold up the answers to takes. */
function counted() {
  const client = redis.client()
  const calls = { takes: 0, asks: 0 }
  const gate = { held: Promise.resolve() }
  const evalsha = client.evalsha.bind(client) as (...args: unknown[]) => Promise<unknown>
  Object.assign(client, {
    evalsha: async (...args: unknown[]) => {
      if (args[0] === semaphoreTake.sha1) calls.takes++
      if (args[0] === semaphoreAsk.sha1) calls.asks++
      const reply = await evalsha(...args)
      if (args[0] === semaphoreTake.sha1) await gate.held
      return reply
    },
  })
  return { client, calls, gate }
}

async function open(options: SemaphoreOptions = { permits: 3 }) {
  const name = fresh()
  const { client, calls, gate } = counted()
  await client.ping()
  const semaphore = new Semaphore(client, name, options)
  return { name, semaphore, calls, gate }
}

describe('permits are taken by a take and given back by a ZREM', () => {
  const patient: [string, () => AcquireOptions][] = [
    ['a timeout', () => ({ timeout: '5s' })],
    ['a signal', () => ({ signal: new AbortController().signal })],
    ['both', () => ({ timeout: '5s', signal: new AbortController().signal })],
  ]
  test.each(patient)('by a request with %s', async (_, options) => {
    const { semaphore, calls } = await open()
    for (let i = 0; i < 20; i++) expect(await (await semaphore.acquire(options())).release()).toBe(true)
    expect(await (await semaphore.tryAcquire(options()))!.release()).toBe(true)
    expect(calls).toEqual({ takes: 21, asks: 0 })
  })

  const lasting: [string, SemaphoreOptions][] = [
    ['a fixed number', { permits: 3, fixed: true }],
    ['an idleTtl', { permits: 3, idleTtl: '10s' }],
    ['both', { permits: 3, fixed: true, idleTtl: '10s' }],
  ]
  test.each(lasting)('of a semaphore with %s', async (_, options) => {
    const { semaphore, calls } = await open(options)
    for (let i = 0; i < 20; i++) await (await semaphore.acquire()).release()
    expect(calls).toEqual({ takes: 20, asks: 0 })
    expect(await semaphore.availablePermits()).toBe(3)
  })

  test('by the places of concurrencyLimit', async () => {
    const { client, calls } = counted()
    const guarded = guardRedis(client, 10_000, undefined, { name: 'test', meanwhile: 'nothing is shared' })
    await client.ping()
    const places = new SharedPlaces({ client, prefix: fresh(), name: 'n', permits: 2, leaseMs: 30_000, guarded })
    for (let i = 0; i < 20; i++) {
      const place = await places.enter('=k')
      expect(place?.leave()).toBe(true)
    }
    expect(calls).toEqual({ takes: 20, asks: 0 })
    await places.close()
  })
})

describe('a take whose caller gives up before its answer is read', () => {
  const giveUps: [string, (abort: AbortController) => AcquireOptions][] = [
    ['by its timeout', () => ({ timeout: 20 })],
    ['by its signal', ({ signal }) => ({ signal })],
  ]
  test.each(giveUps)('%s, gives its permit back', async (how, optionsOf) => {
    const { semaphore, name, gate } = await open()
    let release = () => {}
    gate.held = new Promise(resolve => {
      release = resolve
    })
    const abort = new AbortController()
    const reason = new Error('enough')
    const taken = semaphore.acquire(optionsOf(abort))
    const watcher = new Semaphore(admin, name)
    await eventually('taken in Redis', async () => (await watcher.availablePermits()) === 2)
    if (how === 'by its signal') abort.abort(reason)
    const error = await taken.catch(given => given)
    if (how === 'by its signal') expect(error).toBe(reason)
    else expect(error).toBeInstanceOf(TimeoutError)
    expect(await watcher.availablePermits()).toBe(2)
    release()
    await eventually('given back', async () => (await watcher.availablePermits()) === 3)
  })
})

test('a permit whose lease has ended before its grant is read is not used: the request gets another one', async () => {
  const { semaphore, calls, gate } = await open({ permits: 1 })
  let release = () => {}
  gate.held = new Promise(resolve => {
    release = resolve
  })
  const taken = semaphore.acquire({ lease: 1000, renew: false })
  // Longer than the lease, in real time.
  setTimeout(release, 1100)
  const lease = await taken
  expect(lease.held).toBe(true)
  expect(calls).toEqual({ takes: 1, asks: 1 })
  expect(await lease.release()).toBe(true)
  expect(await semaphore.availablePermits()).toBe(1)
})

test('who has waited asks the line at once, until it grants at once', async () => {
  const { semaphore, name, calls } = await open({ permits: 1 })
  const other = new Semaphore(admin, name, { permits: 1 })
  const held = await other.acquire()
  const waiting = semaphore.acquire()
  await eventually('waits', async () => (await other.waiting()) === 1)
  expect(calls.takes).toBe(1)
  await held.release()
  expect(await (await waiting).release()).toBe(true)
  await (await semaphore.acquire()).release()
  expect(calls.takes).toBe(1)
  const { asks } = calls
  await (await semaphore.acquire()).release()
  expect(calls).toEqual({ takes: 2, asks })
  expect(await other.availablePermits()).toBe(1)
})

describe('a take that is refused because all permits are held', () => {
  test('waits in the line for the rest of its timeout, and says its whole timeout in the error', async () => {
    const { semaphore, name } = await open({ permits: 1 })
    const held = await semaphore.acquire()
    const watcher = new Semaphore(admin, name)
    const late = semaphore.acquire({ timeout: 150 }).catch(error => error)
    const patient = semaphore.acquire({ timeout: '20s' })
    await eventually('both wait', async () => (await watcher.waiting()) === 2)
    expect(String(await late)).toMatch(/no permits within 150 ms/)
    await eventually('one has left', async () => (await watcher.waiting()) === 1)
    await held.release()
    expect(await (await patient).release()).toBe(true)
    expect(await watcher.availablePermits()).toBe(1)
  })

  test('leaves the line when its signal is aborted', async () => {
    const { semaphore, name } = await open({ permits: 1 })
    const held = await semaphore.acquire()
    const watcher = new Semaphore(admin, name)
    const abort = new AbortController()
    const waiting = semaphore.acquire({ signal: abort.signal }).catch(error => error)
    await eventually('waits', async () => (await watcher.waiting()) === 1)
    const reason = new Error('enough')
    abort.abort(reason)
    expect(await waiting).toBe(reason)
    await eventually('has left', async () => (await watcher.waiting()) === 0)
    await held.release()
    expect(await watcher.availablePermits()).toBe(1)
  })
})

describe('a semaphore with an idleTtl', () => {
  test('lives while a lease is out, and has a lifetime in all its keys', async () => {
    const { semaphore, name } = await open({ permits: 3, idleTtl: 300 })
    const lease = await semaphore.acquire({ lease: '60s' })
    // Longer than its idleTtl.
    await sleep(400)
    expect(await semaphore.availablePermits()).toBe(2)
    const keys = await admin.keys(`spillway:{${name}}:semaphore*`)
    for (const key of keys.filter(one => !one.includes(':sent:'))) {
      const ms = await admin.pttl(key)
      expect(ms).toBeGreaterThan(60_000)
      expect(ms).toBeLessThanOrEqual(60_000 + 60_300)
    }
    await lease.release()
  })

  test('and whose fixed number differs elsewhere gives nobody more than its own number', async () => {
    const { semaphore, name, calls } = await open({ permits: 3, fixed: true })
    const other = new Semaphore(redis.client(), name, { permits: 1, fixed: true })
    const held = await semaphore.acquire()
    expect(await other.tryAcquire()).toBeNull()
    calls.takes = calls.asks = 0
    // The number in Redis is the other's now: this one takes by its own.
    const second = await semaphore.acquire()
    expect(calls).toEqual({ takes: 1, asks: 0 })
    await Promise.all([held.release(), second.release()])
  })
})
