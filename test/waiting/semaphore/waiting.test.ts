import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from '@jest/globals'
import { CostError, NotInitializedError } from '../../../src/limiter/core/errors.js'
import { semaphoreAsk } from '../../../src/redis/scripts.js'
import { type AcquireOptions, Semaphore, type SemaphoreOptions } from '../../../src/waiting/semaphore/semaphore.js'
import { eventually } from '../../support/eventually.js'
import { HeldClient } from '../../support/held-client.js'
import { changesText } from '../../support/line-words.js'
import { RedisServer } from '../../support/redis-server.js'
import { taking } from '../../support/taking.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()

let names = 0
const fresh = () => `waiting-${names++}`
/** Each on a connection of its own, as if in a process of its own. */
const open = (name: string, options: SemaphoreOptions = {}) => new Semaphore(redis.client(), name, options)

const take = (semaphore: Semaphore, options?: AcquireOptions) => taking(semaphore.acquire(options))
const inLine = (semaphore: Semaphore, count: number) =>
  eventually(`${count} wait`, async () => (await semaphore.waiting()) === count)

/** Waiters of a dead process that had announced its next ask in five seconds. */
async function ghosts(name: string, count: number, permits = 1): Promise<void> {
  const base = `spillway:{${name}}:semaphore`
  const keys = [
    base,
    ...['open', 'held', 'line', 'asks', 'meta', 'sent:dead/0.0', 'sent:dead/0.0'].map(part => `${base}:${part}`),
  ]
  const joins = Array.from({ length: count }, (_, i) => [
    'j',
    `${i} ${permits} 30000 ${permits}.0.dead/0.ghost-${i}`,
    '',
    '-1',
  ]).flat()
  const until = String(Number.MAX_SAFE_INTEGER)
  const args = ['', '', '-1', 'spillway!turns:', '0', 'dead/0.0', '1', '', '', '', changesText(joins), until]
  await redis.client().eval(semaphoreAsk.source, keys.length, ...keys, ...args)
}

describe('waiters', () => {
  test('are served when permits are added', async () => {
    const name = fresh()
    const a = open(name, { permits: 1 })
    await a.acquire()
    const waiting = [take(open(name)), take(open(name))]
    await inLine(a, 2)
    await a.addPermits(2)
    await Promise.all(waiting.map(({ done }) => done))
    expect(await a.holders()).toHaveLength(3)
  })

  test('for more permits than exist after a shrinking reject with CostError; the others are served', async () => {
    const name = fresh()
    const a = open(name, { permits: 4 })
    const held = await a.acquire({ permits: 4 })
    const [three, one] = [take(open(name), { permits: 3 }), take(open(name))]
    await inLine(a, 2)
    await a.setPermits(2)
    await three.done
    expect(three.error).toBeInstanceOf(CostError)
    expect(one.endedAt).toBe(0)
    await held.release()
    await one.done
    expect(one.value?.held).toBe(true)
  })

  test('are served when a lease ends by itself', async () => {
    const name = fresh()
    const a = open(name, { permits: 1 })
    const held = await a.acquire({ lease: 150, renew: false })
    const next = take(open(name))
    await next.done
    expect(next.value!.expiresAt - 30_000).toBeGreaterThanOrEqual(held.expiresAt)
    expect(held.held).toBe(false)
    expect(held.signal.aborted).toBe(true)
  })

  describe('of a deleted semaphore, of which one knows the number of permits', () => {
    const deleted = async (first: 'lost' | 'knows') => {
      const name = fresh()
      const a = open(name, { permits: 1 })
      await a.acquire()
      const second = new HeldClient(redis.client())
      const clientOf = (which: 'lost' | 'knows') => (which === first ? redis.client() : second.client)
      const lost = take(new Semaphore(clientOf('lost'), name))
      const knows = take(new Semaphore(clientOf('knows'), name, { permits: 1 }))
      await inLine(a, 2)
      second.hold()
      await a.delete()
      return { a, lost, knows, second }
    }

    test('reject with NotInitializedError when they ask before it does, and it is served', async () => {
      const { lost, knows, second } = await deleted('lost')
      await lost.done
      expect(lost.error).toBeInstanceOf(NotInitializedError)
      second.letGo()
      await knows.done
      expect(knows.value?.held).toBe(true)
    })

    test('wait behind it when they ask after it did', async () => {
      const { a, lost, knows, second } = await deleted('knows')
      await knows.done
      expect(knows.value?.held).toBe(true)
      second.letGo()
      await inLine(a, 1)
      expect(lost.endedAt).toBe(0)
      await knows.value?.release()
      await lost.done
      expect(lost.value?.held).toBe(true)
    })
  })
})

describe('a waiter whose process has died', () => {
  test('is skipped when its turn comes, with all others of its process, a second after it was notified', async () => {
    const name = fresh()
    const a = open(name, { permits: 1 })
    const held = await a.acquire()
    await ghosts(name, 300)
    const alive = take(open(name))
    await inLine(a, 301)
    await held.release()
    const releasedAt = performance.now()
    await alive.done
    expect(alive.value?.held).toBe(true)
    // The dead process is notified first. The waiter behind it asks again within five seconds.
    expect(performance.now() - releasedAt).toBeGreaterThan(800)
    expect(performance.now() - releasedAt).toBeLessThan(6000)
    expect(await a.waiting()).toBe(0)
  }, 10_000)

  test('delays no others when it should have asked long ago', async () => {
    const name = fresh()
    const a = open(name, { permits: 1 })
    const held = await a.acquire()
    await ghosts(name, 1)
    await redis.client().zadd(`spillway:{${name}}:semaphore:asks`, 'XX', 1, 'dead/0.0')
    expect(await a.waiting()).toBe(0)
    await held.release()
    expect(await a.tryAcquire()).not.toBeNull()
  })
})

describe('a lost message', () => {
  test('that comes before the answer to the join is not lost', async () => {
    const name = fresh()
    const a = open(name, { permits: 1 })
    const held = await a.acquire()
    const client = redis.client()
    // Something else of the client listens already.
    const admin = redis.client()
    const channels = await admin.pubsub('CHANNELS')
    const { signal } = await new Semaphore(client, fresh(), { permits: 1 }).acquire()
    expect(signal.aborted).toBe(false)
    await eventually('it listens', async () =>
      (await admin.pubsub('CHANNELS')).some(channel => !channels.includes(channel)),
    )
    const evalsha = client.evalsha.bind(client) as (...args: unknown[]) => Promise<unknown>
    Object.assign(client, {
      evalsha: async (...args: unknown[]) => {
        const reply = await evalsha(...args)
        // Every reply takes so long.
        await sleep(100)
        return reply
      },
    })
    const waiting = take(new Semaphore(client, name))
    await inLine(a, 1)
    const releasedAt = performance.now()
    await held.release()
    await waiting.done
    // Two answers late by 100 ms each; the safety check comes after 5 s.
    expect(performance.now() - releasedAt).toBeLessThan(800)
  })

  test('after a restart of an empty server is replaced by asking again', async () => {
    const server = await RedisServer.start()
    const a = new Semaphore(server.client(), 'jobs', { permits: 1 })
    const held = await a.acquire({ lease: 500 })
    const next = take(new Semaphore(server.client(), 'jobs', { permits: 1 }))
    await eventually('waits', async () => (await a.waiting()) === 1)
    await server.restart()
    await next.done
    expect(next.value?.held).toBe(true)
    await eventually('lost', async () => held.signal.aborted)
    await server.stop()
  })
})
