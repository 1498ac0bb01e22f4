import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, jest, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { createClient } from 'redis'
import { semaphoreAsk, semaphoreRenew, semaphoreTake } from '../../../src/redis/scripts.js'
import { ManualClock } from '../../../src/testing.js'
import type { Lease } from '../../../src/waiting/semaphore/lease.js'
import { leaseFacts } from '../../../src/waiting/semaphore/lease-name.js'
import { SemaphoreLine } from '../../../src/waiting/semaphore/line.js'
import { Semaphore, type SemaphoreOptions } from '../../../src/waiting/semaphore/semaphore.js'
import { runChild } from '../../support/child.js'
import { eventually } from '../../support/eventually.js'
import { monitor } from '../../support/monitor.js'
import { RedisCluster } from '../../support/redis-cluster.js'
import { TcpProxy } from '../../support/tcp-proxy.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()

let names = 0
const fresh = () => `leases-${names++}`
const open = (name: string, options: SemaphoreOptions = {}) => new Semaphore(redis.client(), name, options)

/** Every command that clients send while `work` runs; not those of scripts. */
async function commandsDuring(work: () => Promise<void>): Promise<string[][]> {
  const seen: string[][] = []
  const stop = await monitor(redis.port, ({ args, byScript }) => {
    if (!byScript) seen.push(args)
  })
  await work()
  await redis.client().echo('end of the list')
  await eventually('all seen', async () => seen.some(args => args[1] === 'end of the list'))
  stop()
  return seen
}

test('ends by the clock of its process no later than in Redis, however long the process takes to read the answer', async () => {
  const client = redis.client()
  const semaphore = new Semaphore(client, fresh(), { permits: 2 })
  await semaphore.availablePermits()
  let now = performance.now()
  let stepMs = 0
  const clock = jest.spyOn(performance, 'now').mockImplementation(() => (now += stepMs))
  const sentAt = now
  const send = client.sendCommand.bind(client)
  const sends = jest.spyOn(client, 'sendCommand').mockImplementation((...words) => {
    // From now on the process is interrupted wherever it looks at the clock.
    stepMs = 10
    return send(...words)
  })
  try {
    const lease = await semaphore.acquire({ permits: 2, lease: 1000, renew: false })
    expect(sends).toHaveBeenCalled()
    stepMs = 0
    now = sentAt + 998
    expect(lease.held).toBe(true)
    now = sentAt + 999.5
    expect(lease.held).toBe(false)
  } finally {
    clock.mockRestore()
    sends.mockRestore()
  }
})

describe('while the machine is suspended, the monotonic clock stands still: a lease ends nevertheless', () => {
  /** `suspend`: only the wall clock goes on. `interrupt`: both do, after so many more looks at either. */
  interface Clocks {
    suspend(ms: number): void
    interrupt(afterLooks: number, ms: number): void
  }

  async function withClocks(run: (clocks: Clocks) => Promise<void>): Promise<void> {
    let [suspendedMs, interruptedMs, looks, nextMs] = [0, 0, 0, 0]
    const shown = (now: number) => {
      const seen = now + interruptedMs
      if (--looks === 0) interruptedMs += nextMs
      return seen
    }
    const [wall, monotonic] = [Date.now.bind(Date), performance.now.bind(performance)]
    const spies = [
      jest.spyOn(Date, 'now').mockImplementation(() => shown(wall() + suspendedMs)),
      jest.spyOn(performance, 'now').mockImplementation(() => shown(monotonic())),
    ]
    try {
      await run({
        suspend: ms => {
          suspendedMs += ms
        },
        interrupt: (afterLooks, ms) => {
          looks = afterLooks
          nextMs = ms
        },
      })
    } finally {
      for (const spy of spies) spy.mockRestore()
    }
  }

  test('if that happens between the answer and its use', () =>
    withClocks(async clocks => {
      const semaphore = open(fresh(), { permits: 2 })
      const [first, second] = [await semaphore.acquire(), await semaphore.acquire()]
      const grant = SemaphoreLine.prototype.grant
      const grants = jest.spyOn(SemaphoreLine.prototype, 'grant').mockImplementation(function (
        this: SemaphoreLine,
        ...read
      ) {
        const granted = grant.apply(this, read)
        clocks.suspend(5000)
        return granted
      })
      const waits = semaphore.acquire({ permits: 2, lease: 2000, renew: false })
      await Promise.all([first.release(), second.release()])
      const lease = await waits
      grants.mockRestore()
      expect(lease.held).toBe(false)
    }))

  test('also for a process that is interrupted between its looks at the two clocks', () =>
    withClocks(async clocks => {
      const semaphore = open(fresh(), { permits: 2 })
      const lease = await semaphore.acquire({ permits: 2, lease: 60_000, renew: false })
      clocks.suspend(40_000)
      clocks.interrupt(1, 25_000)
      expect(lease.held).toBe(false)
    }))
})

describe('renewal', () => {
  test('keeps a lease for as long as its process lives', async () => {
    const semaphore = open(fresh(), { permits: 1 })
    // A machine that stands still for less than 800 ms loses no lease of 1200 ms.
    const lease = await semaphore.acquire({ lease: 1200 })
    const until = performance.now() + 1800
    let most = 0
    while (performance.now() < until) {
      most = Math.max(most, await semaphore.availablePermits())
      // Looked at again and again for longer than the lease, in real time.
      await sleep(10)
    }
    expect([most, lease.held]).toEqual([0, true])
    expect(lease.signal.aborted).toBe(false)
    expect(await lease.release()).toBe(true)
  })

  test('does not happen with renew: false, nor after detach', async () => {
    const semaphore = open(fresh(), { permits: 2 })
    const [never, detached] = [
      await semaphore.acquire({ lease: 150, renew: false }),
      await semaphore.acquire({ lease: 150 }),
    ]
    detached.detach()
    await eventually('free', async () => (await semaphore.availablePermits()) === 2)
    // The process notices it with its own timer.
    await eventually('lost', async () => !never.held && !detached.held)
    expect([never.signal.aborted, detached.signal.aborted]).toEqual([true, true])
  })

  test('of all due leases of a client is one call, over all its semaphores', async () => {
    const client = redis.client()
    // By this clock they never end, however slow the machine is; renewal goes by timers.
    const clock = new ManualClock(1_700_000_000_000)
    const semaphores = [0, 1, 2].map(() => new Semaphore(client, fresh(), { permits: 10, clock }))
    const leases: Lease[] = []
    let tookMs = 0
    const commands = await commandsDuring(async () => {
      const all = semaphores.flatMap(semaphore => Array.from({ length: 10 }, () => semaphore.acquire({ lease: 600 })))
      leases.push(...(await Promise.all(all)))
      const sent = jest.spyOn(client, 'evalsha').mock.calls as unknown[][]
      const [startedAt, isRenewal] = [performance.now(), (args: unknown[]) => args[0] === semaphoreRenew.sha1]
      await eventually('renewed twice', async () => sent.filter(isRenewal).length >= 3)
      tookMs = performance.now() - startedAt
    })
    expect(leases.every(lease => lease.held)).toBe(true)
    const renewals = commands.filter(args => args[1] === semaphoreRenew.sha1)
    // A look, which extends nothing, is no renewal: the first lease of a client makes it listen, and look when it does.
    const extending = renewals.filter(args => args.at(-1) !== '0').length
    expect(extending).toBeGreaterThanOrEqual(2)
    // Due every 200 ms.
    expect(extending).toBeLessThanOrEqual(1 + tookMs / 200)
    await Promise.all(leases.map(lease => lease.release()))
  })

  test('is tried again after a failure, until the deadline', async () => {
    const proxy = await TcpProxy.start(redis.port)
    const client = redis.client({ port: proxy.port })
    // Its deadline passes when the clock is told, however slow the machine is.
    const clock = new ManualClock(1_700_000_000_000)
    const semaphore = new Semaphore(client, fresh(), { permits: 1, clock })
    const lease = await semaphore.acquire({ lease: 300 })
    const first = lease.expiresAt
    clock.advance(100)
    const tries = jest.spyOn(client, 'evalsha').mockRejectedValue(new Error('Connection is closed.'))
    await eventually('tried three times', async () => tries.mock.calls.length >= 3)
    expect([lease.held, lease.expiresAt]).toEqual([true, first])
    tries.mockRestore()
    await eventually('extended', async () => lease.expiresAt === first + 100)
    proxy.swallow()
    clock.advance(300)
    await eventually('lost', async () => lease.signal.aborted)
    expect(lease.held).toBe(false)
    client.disconnect()
    await proxy.stop()
  })

  test('follows a given clock', async () => {
    const clock = new ManualClock(1_700_000_000_000)
    const semaphore = open(fresh(), { permits: 1, clock })
    const lease = await semaphore.acquire({ lease: 90 })
    const first = lease.expiresAt
    clock.advance(60)
    await eventually('extended', async () => lease.expiresAt === first + 60)
    clock.advance(90)
    await eventually('lost', async () => lease.signal.aborted)
  })

  test('does not keep a process alive, and nothing is left open after close', async () => {
    const child = await runChild(
      `import { Redis } from 'ioredis'
       import { Semaphore } from './src/waiting/semaphore/semaphore.ts'
       const client = new Redis(${redis.port})
       const semaphore = new Semaphore(client, '${fresh()}', { permits: 1 })
       const lease = await semaphore.acquire()
       await semaphore.acquire({ timeout: 20 }).catch(() => {})
       await semaphore.close()
       await client.quit()
       console.log(lease.held)`,
      { timeoutMs: 10_000 },
    )
    expect(child).toMatchObject({ code: 0, stdout: 'true\n', stderr: '' })
  }, 15_000)
})

/** A client that records what it sends, and can send it again. */
function recorder() {
  const client = redis.client()
  const sent: unknown[][] = []
  const send = (args: unknown[]) => (client.evalsha as (...all: unknown[]) => Promise<unknown>).apply(client, args)
  const recording: Redis = Object.assign(Object.create(client), {
    evalsha: (...args: unknown[]) => {
      sent.push(args)
      return send(args)
    },
  })
  return { client: recording, sent, again: (i: number) => send(sent[i]) }
}

describe('a command that the client sends twice', () => {
  test('acts once: acquire takes no second permit, release gives back no second one, however late it comes', async () => {
    const name = fresh()
    const semaphore = open(name, { permits: 3 })
    const others = await semaphore.acquire()
    const { client, sent, again } = recorder()
    const lease = await new Semaphore(client, name).acquire({ permits: 1, lease: 900 })
    expect(sent.map(([sha1]) => sha1)).toEqual([semaphoreAsk.sha1])
    expect(String(await again(0))).toContain(String(lease.token))
    expect(await semaphore.availablePermits()).toBe(1)
    expect(await lease.release()).toBe(true)
    await again(0)
    expect(await semaphore.availablePermits()).toBe(2)
    const releases = sent.length - 1
    await again(releases)
    await again(0)
    await again(releases)
    expect(await semaphore.availablePermits()).toBe(2)
    expect(await semaphore.holders()).toHaveLength(1)
    expect(await others.release()).toBe(true)
  })

  test('acts once also when it was a leave of the line', async () => {
    const name = fresh()
    const semaphore = open(name, { permits: 1 })
    const held = await semaphore.acquire()
    const { client, sent, again } = recorder()
    const ours = new Semaphore(client, name)
    await expect(ours.acquire({ timeout: 20 })).rejects.toThrow('no permits within 20 ms')
    await eventually('has left', async () => (await semaphore.waiting()) === 0)
    const waiting = open(name).acquire()
    await eventually('waits alone', async () => (await semaphore.waiting()) === 1)
    for (let i = 0; i < sent.length; i++) await again(i)
    expect(await semaphore.waiting()).toBe(1)
    await held.release()
    await (await waiting).release()
    expect(await semaphore.availablePermits()).toBe(1)
  })
})

describe('permits requested in one turn', () => {
  test('are granted in the order of the requests, in two calls for all', async () => {
    const name = fresh()
    const semaphore = open(name, { permits: 20 })
    await semaphore.trySetPermits(20)
    const { client, sent } = recorder()
    await client.ping()
    const ours = new Semaphore(client, name)
    const leases = await Promise.all(Array.from({ length: 20 }, () => ours.acquire()))
    // The first goes out at once, the others together behind it.
    expect(sent.map(([sha1]) => sha1)).toEqual([semaphoreTake.sha1, semaphoreTake.sha1])
    expect(await semaphore.availablePermits()).toBe(0)
    const tokens = leases.map(({ token }) => token)
    expect(tokens).toEqual([...tokens].sort((a, b) => (a < b ? -1 : 1)))
    expect(new Set(tokens).size).toBe(20)
    expect(await Promise.all(leases.map(lease => lease.release()))).toEqual(leases.map(() => true))
    // By a ZREM each.
    expect(sent).toHaveLength(2)
    expect(await semaphore.availablePermits()).toBe(20)
    expect(await semaphore.holders()).toEqual([])
  })

  test('that are too few for all go to the earliest requests; the others wait in their order', async () => {
    const semaphore = open(fresh(), { permits: 3 })
    await semaphore.permits()
    const order: number[] = []
    const all = Array.from({ length: 8 }, async (_, i) => {
      const lease = await semaphore.acquire()
      order.push(i)
      return lease
    })
    const first = await Promise.all(all.slice(0, 3))
    await eventually('wait', async () => (await semaphore.waiting()) === 5)
    expect(order).toEqual([0, 1, 2])
    for (const lease of first) await lease.release()
    for (const waiting of all.slice(3)) await (await waiting).release()
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
    expect(await semaphore.availablePermits()).toBe(3)
  })
})

describe('leases that were not released', () => {
  test('are counted when their time is over, many at once, each once', async () => {
    const clock = new ManualClock(1_700_000_000_000)
    const semaphore = open(fresh(), { permits: 2500, clock })
    const options = { lease: 1000, renew: false }
    await Promise.all(Array.from({ length: 2400 }, () => semaphore.acquire(options)))
    clock.advance(500)
    await Promise.all(Array.from({ length: 100 }, () => semaphore.acquire(options)))
    expect(await semaphore.tryAcquire()).toBeNull()
    clock.advance(500)
    expect(await semaphore.availablePermits()).toBe(2400)
    clock.advance(500)
    expect(await semaphore.availablePermits()).toBe(2500)
  })
})

describe('other clients', () => {
  test('of node-redis hold, wait and get permits as well', async () => {
    const client = createClient({ url: redis.url })
    await client.connect()
    const name = fresh()
    const clock = new ManualClock(1_700_000_000_000)
    const theirs = new Semaphore(client, name, { permits: 1, clock })
    const held = await theirs.acquire({ lease: 300 })
    const first = held.expiresAt
    const next = open(name, { clock }).acquire()
    await eventually('waits', async () => (await theirs.waiting()) === 1)
    clock.advance(200)
    await eventually('it is renewed', async () => held.expiresAt === first + 200)
    const last = theirs.acquire()
    await eventually('wait', async () => (await theirs.waiting()) === 2)
    await held.release()
    await (await next).release()
    expect((await last).held).toBe(true)
    await (await last).release()
    client.destroy()
  })

  test('of a cluster work as well, with several semaphores on different nodes', async () => {
    const cluster = await RedisCluster.start()
    const [here, there] = [cluster.client(), cluster.client()]
    const clock = new ManualClock(1_700_000_000_000)
    const holdAndHandOver = async (name: string) => {
      const held = await new Semaphore(here, name, { permits: 1, clock }).acquire({ lease: 300 })
      const first = held.expiresAt
      const next = new Semaphore(there, name, { clock }).acquire()
      // As long as the next one takes to stand in line, in real time.
      await sleep(10)
      if (name === 'd') clock.advance(200)
      await eventually('it is renewed', async () => held.expiresAt > first)
      await held.release()
      expect((await next).held).toBe(true)
    }
    await Promise.all(['a', 'b', 'c', 'd'].map(holdAndHandOver))
    await cluster.stop()
  }, 30_000)
})

test('a lease granted to a waiter tells its holder at once when another process ends it or takes it over', async () => {
  const name = fresh()
  const here = open(name, { permits: 1 })
  const there = open(name)
  const first = await here.acquire()
  // With a waiter behind each, the permit is handed over in the line.
  const waiting = [1, 2, 3].map(() => here.acquire())
  await eventually('they wait', async () => (await there.waiting()) === 3)
  await first.release()
  const second = await waiting[0]
  const signals = [second.signal]
  const channel = `spillway!turns:${leaseFacts(second.id).heldBy}`
  await eventually('it listens', async () => (await redis.client().pubsub('CHANNELS')).includes(channel))
  const endedAt = performance.now()
  expect(await there.forceRelease(second.id)).toBe(true)
  const third = await waiting[1]
  signals.push(third.signal)
  const taken = (await there.resume(third.id)) as Lease
  await eventually('both know', async () => signals.every(({ aborted }) => aborted))
  // A renewal would have told them after ten seconds.
  expect(performance.now() - endedAt).toBeLessThan(5000)
  expect([second.held, third.held, taken.held]).toEqual([false, false, true])
  expect(taken.token > third.token).toBe(true)
  // The former holder cannot give back what is now another's.
  expect([await third.release(), await there.availablePermits()]).toEqual([false, 0])
  expect(await taken.release()).toBe(true)
  await (await waiting[2]).release()
  await Promise.all([here.close(), there.close()])
})
