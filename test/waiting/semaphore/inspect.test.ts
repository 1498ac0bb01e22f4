import { describe, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { NotInitializedError, PolicyError } from '../../../src/limiter/core/errors.js'
import { Semaphore, type SemaphoreOptions } from '../../../src/waiting/semaphore/semaphore.js'
import { eventually } from '../../support/eventually.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()

let names = 0
function open(options: SemaphoreOptions = {}) {
  const [name, client] = [`looked-at-${names++}`, redis.client()]
  const keyOf = (part: string) => `spillway:{${name}}:semaphore${part}`
  return { semaphore: new Semaphore(client, name, options), client, name, keyOf }
}

/** All keys of a semaphore, with their values and whether they have a lifetime. */
async function stored(client: Redis, name: string) {
  const keys = (await client.keys(`spillway:{${name}}*`)).sort()
  return Promise.all(
    keys.map(async key => [key, (await client.dumpBuffer(key))?.toString('hex'), (await client.pttl(key)) > 0]),
  )
}

describe('inspect', () => {
  test('tells the permits, those who hold some, and those who wait', async () => {
    const { semaphore, client, name } = open({ permits: 5 })
    const before = Date.now()
    const short = await semaphore.acquire({ permits: 2, lease: '20s' })
    const long = await semaphore.acquire({ lease: '60s' })
    const ends = new AbortController()
    const other = redis.client()
    const waiter = new Semaphore(other, name).acquire({ permits: 3, signal: ends.signal }).catch(() => {})
    await eventually('one waits', async () => (await semaphore.waiting()) === 1)
    // Who waits asks again now and then: a process that is gone does not.
    other.disconnect()
    const kept = await stored(client, name)
    await eventually('it has waited for a while', async () => (await semaphore.inspect()).longestWaitMs > 30)
    const view = await semaphore.inspect()
    expect(await stored(client, name)).toEqual(kept)
    expect(view).toEqual({
      permits: 5,
      available: 2,
      waiting: 1,
      longestWaitMs: expect.any(Number),
      holders: {
        items: [
          {
            id: short.id,
            permits: 2,
            expiresAt: expect.any(Number),
            since: expect.any(Number),
            heldBy: expect.any(String),
          },
          {
            id: long.id,
            permits: 1,
            expiresAt: expect.any(Number),
            since: expect.any(Number),
            heldBy: expect.any(String),
          },
        ],
        more: 0,
      },
    })
    const [first, second] = view.holders.items
    expect(second.expiresAt - first.expiresAt).toBeGreaterThan(39_000)
    expect(first.since).toBeGreaterThanOrEqual(before)
    expect(first.heldBy).toBe(second.heldBy)
    expect(await semaphore.holders()).toEqual(view.holders.items)
    ends.abort()
    await waiter
    await Promise.all([short.release(), long.release()])
    expect(await semaphore.inspect()).toMatchObject({ permits: 5, available: 5, holders: { items: [], more: 0 } })
  })

  test('is one call of bounded length, and says how many holders it does not list', async () => {
    const { semaphore, client } = open({ permits: 5000 })
    await semaphore.trySetPermits(5000)
    await Promise.all(Array.from({ length: 120 }, () => semaphore.acquire({ renew: false })))
    const calls = async () => Number(/cmdstat_evalsha:calls=(\d+)/.exec(await client.info('commandstats'))?.[1])
    const before = await calls()
    const { holders } = await semaphore.inspect()
    expect((await calls()) - before).toBe(1)
    expect([holders.items.length, holders.more]).toEqual([50, 70])
    const few = (await semaphore.inspect({ limit: 3 })).holders
    expect([few.items, few.more]).toEqual([holders.items.slice(0, 3), 117])
    expect((await semaphore.inspect({ limit: 0 })).holders).toEqual({ items: [], more: 120 })
    expect((await semaphore.inspect({ limit: 1000 })).holders.more).toBe(0)
  })

  test('leaves ended leases to others, and counts their permits as free', async () => {
    const { semaphore, client, name, keyOf } = open()
    await semaphore.trySetPermits(10)
    const lease = await semaphore.acquire({ permits: 4, renew: false })
    await semaphore.acquire({ permits: 3, renew: false })
    await client.zadd(keyOf(':open'), Date.now() - 1000, lease.id)
    const before = await stored(client, name)
    const { available, holders } = await semaphore.inspect()
    expect([available, holders.items.map(({ permits }) => permits)]).toEqual([7, [3]])
    expect(await stored(client, name)).toEqual(before)
  })

  test('after the server’s clock was set back, tells deadlines as they will be repaired', async () => {
    const { semaphore, client, name, keyOf } = open({ permits: 2 })
    const lease = await semaphore.acquire({ lease: '30s', renew: false })
    // Half an hour ago by its own clock, which has been set back since.
    const ahead = 1_800_000
    const deadline = Number(await client.zscore(keyOf(':open'), lease.id))
    await client.zadd(keyOf(':open'), deadline + ahead, lease.id, (deadline - 30_000 + ahead) * 1000, '!last')
    const before = await stored(client, name)
    const { available, holders } = await semaphore.inspect()
    expect(available).toBe(1)
    expect(Math.abs(holders.items[0].expiresAt - (Date.now() + 30_000))).toBeLessThan(5000)
    expect(await stored(client, name)).toEqual(before)
    // A take repairs it to the same.
    expect(await semaphore.tryAcquire({ permits: 2 })).toBeNull()
    const repaired = (await semaphore.inspect()).holders.items[0].expiresAt
    expect(Math.abs(repaired - holders.items[0].expiresAt)).toBeLessThan(1000)
  })

  test('sets nothing where nothing is set, and counts by the number that the object was given', async () => {
    const { semaphore, client, name } = open({ permits: 3 })
    expect(await semaphore.inspect()).toMatchObject({ permits: 3, available: 3 })
    expect(await semaphore.permits()).toBe(3)
    expect(await stored(client, name)).toEqual([])
    await expect(open().semaphore.inspect()).rejects.toThrow(NotInitializedError)
  })

  test('refuses invalid options', async () => {
    const { semaphore } = open({ permits: 1 })
    for (const options of [{ limit: -1 }, { limit: 1001 }, { limit: 1.5 }, { most: 3 } as object])
      await expect(semaphore.inspect(options)).rejects.toThrow(PolicyError)
  })
})
