import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { CostError, NotInitializedError, SpillwayError } from '../../src/core/errors.js'
import { semaphoreAsk } from '../../src/redis/scripts.js'
import type { Lease } from '../../src/semaphore/lease.js'
import { type AcquireOptions, Semaphore, type SemaphoreOptions } from '../../src/semaphore/semaphore.js'
import { changesText } from '../support/line-words.js'
import { eventually } from '../support/redis-process.js'
import { RedisServer } from '../support/redis-server.js'

let redis: RedisServer
beforeAll(async () => {
  redis = await RedisServer.start()
})
afterAll(() => redis.stop())

let names = 0
const fresh = () => `waiting-${names++}`
/** Each on a connection of its own, as if in a process of its own. */
const open = (name: string, options: SemaphoreOptions = {}) => new Semaphore(redis.client(), name, options)

/** Acquires, and keeps what came of it. */
function taking(semaphore: Semaphore, options?: AcquireOptions) {
  const state: { lease?: Lease; error?: unknown } = {}
  const done = semaphore.acquire(options).then(
    lease => {
      state.lease = lease
    },
    error => {
      state.error = error
    },
  )
  return { state, done }
}

const inLine = (semaphore: Semaphore, count: number) =>
  eventually(`${count} wait`, async () => (await semaphore.waiting()) === count)

/** Waiters of a dead process that had announced its next ask in five seconds. */
async function ghosts(name: string, count: number, permits = 1): Promise<void> {
  const base = `spillway:{${name}}:semaphore`
  const keys = [
    base,
    ...['leases', 'facts', 'line', 'asks', 'meta', 'direct', 'sent:dead/0.0', 'sent:dead/0.0'].map(
      part => `${base}:${part}`,
    ),
  ]
  const joins = Array.from({ length: count }, (_, i) => ['j', `${i} ${permits} 30000 ghost-${i}`, '', '-1']).flat()
  const until = String(Number.MAX_SAFE_INTEGER)
  const args = ['', '-1', '-1', 'spillway!turns:', '0', 'dead/0.0', '1', '', '', '', changesText(joins), until]
  await redis.client().eval(semaphoreAsk.source, keys.length, ...keys, ...args)
}

describe('waiters', () => {
  test('ask about once a second where the user may not subscribe', async () => {
    const admin = redis.client()
    await admin.call('ACL', 'SETUSER', 'deaf', 'on', '>secret', '~*', '&*', '+@all', '-subscribe')
    const name = fresh()
    const holder = open(name, { permits: 1 })
    const lease = await holder.acquire()
    const deaf = new Semaphore(redis.client({ username: 'deaf', password: 'secret' }), name)
    const { state, done } = taking(deaf)
    await inLine(holder, 1)
    // Long enough to be told that it may not subscribe.
    await sleep(200)
    const releasedAt = performance.now()
    await lease.release()
    await done
    expect(performance.now() - releasedAt).toBeLessThan(2000)
    await state.lease?.release()
  })

  test('are served in the order in which they came, over all processes', async () => {
    const name = fresh()
    const holder = open(name, { permits: 1 })
    const first = await holder.acquire()
    const processes = [open(name), open(name), open(name)]
    const order: number[] = []
    const all: Promise<void>[] = []
    for (let i = 0; i < 9; i++) {
      const waiting = processes[i % 3].use(async () => void order.push(i))
      all.push(waiting)
      await inLine(holder, i + 1)
    }
    await first.release()
    await Promise.all(all)
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8])
    expect(await holder.availablePermits()).toBe(1)
  })

  test('for several permits get all or none, and are not starved by smaller requests', async () => {
    const name = fresh()
    const a = open(name, { permits: 3 })
    const held = [await a.acquire(), await a.acquire(), await a.acquire()]
    const three = taking(open(name), { permits: 3 })
    await inLine(a, 1)
    const one = taking(open(name))
    await inLine(a, 2)
    await held[0].release()
    await held[1].release()
    expect(await a.tryAcquire()).toBeNull()
    expect([three.state, one.state]).toEqual([{}, {}])
    await held[2].release()
    await three.done
    expect(one.state).toEqual({})
    await three.state.lease?.release()
    await one.done
    expect(one.state.lease?.held).toBe(true)
  })

  test('are not overtaken by tryAcquire, although permits are free', async () => {
    const name = fresh()
    const a = open(name, { permits: 2 })
    const held = await a.acquire()
    const two = taking(open(name), { permits: 2 })
    await inLine(a, 1)
    expect(await a.availablePermits()).toBe(1)
    expect(await a.tryAcquire()).toBeNull()
    await held.release()
    await two.done
    await two.state.lease?.release()
    expect(await a.tryAcquire()).not.toBeNull()
  })

  test('are served when permits are added', async () => {
    const name = fresh()
    const a = open(name, { permits: 1 })
    await a.acquire()
    const waiting = [taking(open(name)), taking(open(name))]
    await inLine(a, 2)
    await a.addPermits(2)
    await Promise.all(waiting.map(({ done }) => done))
    expect(await a.holders()).toHaveLength(3)
  })

  test('for more permits than exist after a shrinking reject with CostError; the others are served', async () => {
    const name = fresh()
    const a = open(name, { permits: 4 })
    const held = await a.acquire({ permits: 4 })
    const [three, one] = [taking(open(name), { permits: 3 }), taking(open(name))]
    await inLine(a, 2)
    await a.setPermits(2)
    await three.done
    expect(three.state.error).toBeInstanceOf(CostError)
    expect(one.state).toEqual({})
    await held.release()
    await one.done
    expect(one.state.lease?.held).toBe(true)
  })

  test('are served when a lease ends by itself', async () => {
    const name = fresh()
    const a = open(name, { permits: 1 })
    const held = await a.acquire({ lease: 150, renew: false })
    const next = taking(open(name))
    await next.done
    expect(next.state.lease!.expiresAt - 30_000).toBeGreaterThanOrEqual(held.expiresAt)
    expect(held.held).toBe(false)
    expect(held.signal.aborted).toBe(true)
  })

  test('reject with the reason of their signal, and leave the line', async () => {
    const name = fresh()
    const a = open(name, { permits: 1 })
    const held = await a.acquire()
    const abort = new AbortController()
    const reason = new Error('enough')
    const first = taking(open(name), { signal: abort.signal })
    await inLine(a, 1)
    const second = taking(open(name))
    await inLine(a, 2)
    abort.abort(reason)
    await first.done
    expect(first.state.error).toBe(reason)
    await inLine(a, 1)
    await held.release()
    await second.done
    expect(second.state.lease?.held).toBe(true)
    await expect(a.acquire({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
  })

  test('reject on close, and leave the line', async () => {
    const name = fresh()
    const a = open(name, { permits: 1 })
    const held = await a.acquire()
    const b = open(name)
    const waiting = taking(b)
    await inLine(a, 1)
    await b.close()
    await waiting.done
    expect(waiting.state.error).toBeInstanceOf(SpillwayError)
    expect(await a.waiting()).toBe(0)
    await expect(b.acquire()).rejects.toThrow(/was closed/)
    expect(await held.release()).toBe(true)
  })

  test('of a deleted semaphore reject with NotInitializedError, or continue if the number of permits is known', async () => {
    const name = fresh()
    const a = open(name, { permits: 1 })
    await a.acquire()
    const [lost, knows] = [taking(open(name)), taking(open(name, { permits: 1 }))]
    await inLine(a, 2)
    await a.delete()
    // Whichever asks again first. Before the one that knows the number, the other is rejected; after it, either of them is served first.
    await Promise.all([lost, knows].map(({ done, state }) => done.then(() => state.lease?.release())))
    expect(knows.state.lease).toBeDefined()
    if (lost.state.error) expect(lost.state.error).toBeInstanceOf(NotInitializedError)
    else expect(lost.state.lease).toBeDefined()
  })
})

describe('a waiter whose process has died', () => {
  test('is skipped when its turn comes, with all others of its process, a second after it was notified', async () => {
    const name = fresh()
    const a = open(name, { permits: 1 })
    const held = await a.acquire()
    await ghosts(name, 300)
    const alive = taking(open(name))
    await inLine(a, 301)
    await held.release()
    const releasedAt = performance.now()
    await alive.done
    expect(alive.state.lease?.held).toBe(true)
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
  test('after every listening connection was killed delays waiters, but does no other harm', async () => {
    const name = fresh()
    const a = open(name, { permits: 1 })
    let held = await a.acquire()
    for (let i = 0; i < 3; i++) {
      const waiting = taking(open(name))
      await inLine(a, 1)
      await Promise.all([redis.client().call('CLIENT', 'KILL', 'TYPE', 'pubsub'), held.release()])
      await waiting.done
      held = waiting.state.lease as Lease
      expect(held.held).toBe(true)
    }
  })

  test('that comes before the answer to the join is not lost', async () => {
    const name = fresh()
    const a = open(name, { permits: 1 })
    const held = await a.acquire()
    const client = redis.client()
    // Something else of the client listens already.
    const admin = redis.client()
    const channels = await admin.pubsub('CHANNELS')
    await new Semaphore(client, fresh(), { permits: 1 }).acquire()
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
    const waiting = taking(new Semaphore(client, name))
    await inLine(a, 1)
    const releasedAt = performance.now()
    await held.release()
    await waiting.done
    // Two answers late by 100 ms each; the safety check comes after 5 s.
    expect(performance.now() - releasedAt).toBeLessThan(800)
  })

  test('is replaced by asking if the client provides no connection to listen on', async () => {
    const name = fresh()
    const a = open(name, { permits: 1 })
    const held = await a.acquire()
    const client = Object.create(redis.client(), { duplicate: { value: undefined } })
    const deaf = taking(new Semaphore(client, name))
    await inLine(a, 1)
    await held.release()
    await deaf.done
    expect(deaf.state.lease?.held).toBe(true)
  })

  test('with the whole line, as by FLUSHALL, does no harm: waiters create the line again', async () => {
    const server = await RedisServer.start()
    const a = new Semaphore(server.client(), 'jobs', { permits: 1 })
    await a.acquire()
    const order: number[] = []
    const waiters = [0, 1, 2].map(i =>
      new Semaphore(server.client(), 'jobs', { permits: 1 }).use(async () => {
        order.push(i)
        // Held for a while of real time, so that the others wait.
        await sleep(5)
      }),
    )
    await eventually('wait', async () => (await a.waiting()) === 3)
    await server.client().flushall()
    await Promise.all(waiters)
    expect(order).toHaveLength(3)
    await server.stop()
  }, 10_000)

  test('after a restart of an empty server is replaced by asking again', async () => {
    const server = await RedisServer.start()
    const a = new Semaphore(server.client(), 'jobs', { permits: 1 })
    const held = await a.acquire({ lease: 500 })
    const next = taking(new Semaphore(server.client(), 'jobs', { permits: 1 }))
    await eventually('waits', async () => (await a.waiting()) === 1)
    await server.restart()
    await next.done
    expect(next.state.lease?.held).toBe(true)
    await eventually('lost', async () => held.signal.aborted)
    await server.stop()
  })
})

describe('an abort at the moment of the hand-over', () => {
  test('leaks nothing, a thousand times', async () => {
    const name = fresh()
    const a = open(name, { permits: 3 })
    await a.permits()
    const lanes = Array.from({ length: 10 }, async (_, lane) => {
      const b = open(name)
      for (let i = 0; i < 100; i++) {
        const abort = new AbortController()
        const waiting = taking(b, { signal: abort.signal })
        const moment = (lane * 37 + i * 17) % 40
        if (moment < 10) await Promise.resolve()
        // A signal is aborted at any moment around the grant.
        else await sleep(moment / 20)
        abort.abort()
        await waiting.done
        await waiting.state.lease?.release()
      }
      await b.close()
    })
    await Promise.all(lanes)
    expect(await a.availablePermits()).toBe(3)
    expect(await a.holders()).toEqual([])
    expect(await a.waiting()).toBe(0)
  }, 20_000)
})

describe('many who take turns', () => {
  test('never hold more than all permits, and all are served', async () => {
    const name = fresh()
    let inside = 0
    let most = 0
    let done = 0
    const processes = Array.from({ length: 6 }, () => open(name, { permits: 2 }))
    await Promise.all(
      processes.map(async semaphore => {
        for (let i = 0; i < 25; i++) {
          await semaphore.use(async () => {
            most = Math.max(most, ++inside)
            // Held for a while of real time, so that the others come meanwhile.
            await sleep(1)
            inside--
            done++
          })
        }
      }),
    )
    expect(most).toBe(2)
    expect(done).toBe(150)
    expect(await processes[0].availablePermits()).toBe(2)
  }, 20_000)
})
