import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { SpillwayError, TimeoutError } from '../../../src/limiter/core/errors.js'
import type { WaitOptions } from '../../../src/limiter/core/wait.js'
import type { RedisClient } from '../../../src/redis/client.js'
import { eventually } from '../../support/eventually.js'
import { RedisServer } from '../../support/redis-server.js'
import { taking } from '../../support/taking.js'
import { TcpProxy } from '../../support/tcp-proxy.js'

/** What grants units in Redis and lets requests wait for them, as one process has it. */
interface Line {
  acquire(units: number, options?: WaitOptions): Promise<unknown>
  /** Without waiting. */
  tryAcquire(): Promise<boolean>
  /** Units that this process was granted come back. */
  giveBack(units: number): Promise<unknown>
  available(): Promise<number>
  /** How many wait, of all processes. */
  waiting(): Promise<number>
  close(): Promise<unknown>
}

/** Opens the line of a name, whose units come back only when they are given back. */
export type LineMaker = (client: RedisClient, name: string, units: number) => Promise<Line>

/** Within so long comes what was told; who is told nothing asks every second. */
const TOLD_MS = 800

/** What every object promises to those that wait in Redis. */
export function describeWaiting(title: string, make: LineMaker): void {
  let redis: RedisServer
  let names = 0
  const opened: Line[] = []
  beforeAll(async () => {
    redis = await RedisServer.start()
  })
  afterAll(() => redis.stop())
  afterEach(async () => {
    await Promise.all(opened.splice(0).map(line => line.close()))
  })

  /** All units of a new name are spent by the first process; the others have connections of their own. */
  async function spent(units: number) {
    const name = `line-${names++}`
    const another = async (client: RedisClient = redis.client()) => {
      const line = await make(client, name, units)
      opened.push(line)
      return line
    }
    const first = await another()
    for (let i = 0; i < units; i++) await first.acquire(1)
    return { first, another }
  }
  const take = (line: Line, units = 1, options?: WaitOptions) => taking(line.acquire(units, options))
  const inLine = (line: Line, count: number) =>
    eventually(`${count} wait`, async () => (await line.waiting()) === count)

  describe(`waiters of ${title}`, () => {
    test('are served in the order in which they came, over all processes', async () => {
      const { first, another } = await spent(1)
      const processes = [await another(), await another(), await another()]
      const order: number[] = []
      const all: Promise<unknown>[] = []
      for (let i = 0; i < 9; i++) {
        const line = processes[i % 3]
        const granted = line.acquire(1).then(() => order.push(i))
        // Before the next one is served, this one has been read.
        all.push(granted.then(() => line.giveBack(1)))
        await inLine(first, i + 1)
      }
      await first.giveBack(1)
      await Promise.all(all)
      expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8])
      expect(await first.available()).toBe(1)
    })

    test('for several units get all or none, and nobody overtakes them although some are free', async () => {
      const { first, another } = await spent(3)
      const three = take(await another(), 3)
      await inLine(first, 1)
      const one = take(await another())
      await inLine(first, 2)
      await first.giveBack(2)
      expect(await first.tryAcquire()).toBe(false)
      expect([three.endedAt, one.endedAt]).toEqual([0, 0])
      await first.giveBack(1)
      await three.done
      expect([three.granted, one.endedAt]).toEqual([true, 0])
    })

    test('move up at once when another process gives units back', async () => {
      const { first, another } = await spent(1)
      const waiting = take(await another())
      await inLine(first, 1)
      const givenAt = performance.now()
      await first.giveBack(1)
      await waiting.done
      expect(waiting.granted).toBe(true)
      expect(performance.now() - givenAt).toBeLessThan(TOLD_MS)
      expect(await first.available()).toBe(0)
    })

    test('that give up reject with the reason of their signal and take nothing, and those behind them move up at once', async () => {
      const { first, another } = await spent(2)
      const [abort, reason] = [new AbortController(), new Error('enough')]
      const two = take(await another(), 2, { signal: abort.signal })
      await inLine(first, 1)
      const behind = take(await another())
      await inLine(first, 2)
      await first.giveBack(1)
      expect(behind.endedAt).toBe(0)
      const abortedAt = performance.now()
      abort.abort(reason)
      await Promise.all([two.done, behind.done])
      expect([two.error, behind.granted]).toEqual([reason, true])
      expect(performance.now() - abortedAt).toBeLessThan(TOLD_MS)
      expect([await first.waiting(), await first.available()]).toEqual([0, 0])
      await expect(first.acquire(1, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    })

    test('that give up by hundreds at once leave nothing behind', async () => {
      const { first, another } = await spent(1)
      const [crowd, abort] = [await another(), new AbortController()]
      const many = Array.from({ length: 300 }, () => take(crowd, 1, { signal: abort.signal }))
      await inLine(first, 300)
      const last = take(await another())
      await inLine(first, 301)
      abort.abort()
      await Promise.all(many.map(({ done }) => done))
      await inLine(first, 1)
      await first.giveBack(1)
      await last.done
      expect(last.granted).toBe(true)
    })

    test('reject at the end of their timeout, and take nothing', async () => {
      const { first, another } = await spent(1)
      const waiting = take(await another(), 1, { timeout: 60 })
      await waiting.done
      expect(waiting.error).toBeInstanceOf(TimeoutError)
      await inLine(first, 0)
      await first.giveBack(1)
      expect(await first.available()).toBe(1)
    })

    test('reject on close, and have left the line when it resolves, also those whose request is in flight', async () => {
      const { first, another } = await spent(1)
      const closing = await another()
      const lost = Array.from({ length: 300 }, () => take(closing))
      await inLine(first, 300)
      lost.push(...Array.from({ length: 300 }, () => take(closing)))
      await closing.close()
      expect(await first.waiting()).toBe(0)
      await Promise.all(lost.map(({ done }) => done))
      for (const { error } of lost) expect(error).toBeInstanceOf(SpillwayError)
      await first.giveBack(1)
      expect(await first.available()).toBe(1)
    })

    test('that come and give up around the moment of a grant leak nothing, and never hold more than there is', async () => {
      const { first, another } = await spent(3)
      await first.giveBack(3)
      let [out, most] = [0, 0]
      await Promise.all(
        Array.from({ length: 10 }, async (_, lane) => {
          const line = await another()
          for (let i = 0; i < 40; i++) {
            const abort = new AbortController()
            const waiting = take(line, 1, { signal: abort.signal })
            const moment = (lane * 37 + i * 17) % 40
            // A signal is aborted at any moment around the grant; every fourth is not.
            if (moment < 10) await Promise.resolve()
            else await sleep(moment / 10)
            if (i % 4 > 0) abort.abort()
            await waiting.done
            if (!waiting.granted) continue
            most = Math.max(most, ++out)
            // Held for a while of real time, so that the others come meanwhile.
            await sleep(1)
            out--
            await line.giveBack(1)
          }
        }),
      )
      await inLine(first, 0)
      expect(most).toBeGreaterThan(0)
      expect(most).toBeLessThanOrEqual(3)
      // What was granted to somebody who had left comes back a moment later.
      await eventually('all are back', async () => (await first.available()) === 3)
    })

    test('wait on through cut connections and an outage of a second, and are served in their order', async () => {
      const { first, another } = await spent(1)
      const proxy = await TcpProxy.start(redis.port)
      const far = await another(
        redis.client({ port: proxy.port, maxRetriesPerRequest: 0, retryStrategy: () => 100, enableOfflineQueue: true }),
      )
      const order: number[] = []
      const all = [0, 1, 2].map(async i => {
        await far.acquire(1)
        order.push(i)
        await far.giveBack(1)
      })
      await inLine(first, 3)
      for (let i = 0; i < 5; i++) {
        proxy.cut()
        await sleep(50)
      }
      proxy.swallow()
      await first.giveBack(1)
      await sleep(1000)
      proxy.release()
      await Promise.all(all)
      expect([order, await first.available()]).toEqual([[0, 1, 2], 1])
      await far.close()
      await proxy.stop()
    })

    test('take once what is asked for again because its answer was lost: a grant, and a place in the line', async () => {
      const { first, another } = await spent(2)
      const proxy = await TcpProxy.start(redis.port)
      const far = await another(redis.client({ port: proxy.port }))
      await far.available()
      const lost = async (carriedOut: () => Promise<unknown>) => {
        proxy.delayMs = () => 60_000
        const asked = take(far)
        await carriedOut()
        proxy.delayMs = () => 0
        proxy.cut()
        return asked
      }
      await first.giveBack(1)
      const granted = await lost(() => eventually('granted', async () => (await first.available()) === 0))
      await granted.done
      expect([granted.granted, await first.available()]).toEqual([true, 0])
      const ahead = take(far)
      await inLine(first, 1)
      // The answer that it is in the line has come, too, and it listens and has asked because of that: until then
      // nobody else asks.
      await sleep(300)
      await far.available()
      const waiting = await lost(() => inLine(first, 2))
      // As long as a second place in the line would take to come.
      await sleep(300)
      expect(await first.waiting()).toBe(2)
      await first.giveBack(1)
      await ahead.done
      await far.giveBack(1)
      await waiting.done
      expect([ahead.granted, waiting.granted, await first.available()]).toEqual([true, true, 0])
      await far.close()
      await proxy.stop()
    })

    test('whose line is lost reject nobody, and stand in their old order again', async () => {
      const { first, another } = await spent(2)
      const order: number[] = []
      const wait = async (place: number) => (await another()).acquire(1).then(() => order.push(place))
      const waits = [wait(0)]
      await inLine(first, 1)
      const admin = redis.client()
      await admin.del(await admin.keys('*:line'))
      waits.push(wait(1))
      await eventually('the second waits', async () => (await first.waiting()) > 0)
      // Both ask how they stand as soon as they hear again.
      await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
      await inLine(first, 2)
      expect(order).toEqual([])
      for (const count of [1, 2]) {
        await first.giveBack(1)
        await eventually(`${count} are served`, () => order.length === count)
      }
      await Promise.all(waits)
      expect([order, await first.available()]).toEqual([[0, 1], 0])
    })

    test('ask again when every listening connection was killed', async () => {
      const { first, another } = await spent(3)
      for (let i = 0; i < 3; i++) {
        const waiting = take(await another())
        await inLine(first, 1)
        await Promise.all([redis.client().call('CLIENT', 'KILL', 'TYPE', 'pubsub'), first.giveBack(1)])
        await waiting.done
        expect(waiting.granted).toBe(true)
      }
    })

    test('ask about once a second where they cannot listen, because the user may not or the client opens no connection', async () => {
      const user = { username: 'deaf', password: 'secret' }
      await redis.client().call('ACL', 'SETUSER', 'deaf', 'on', '>secret', '~*', '&*', '+@all', '-subscribe')
      const { first, another } = await spent(2)
      const deaf = [redis.client(user), Object.create(redis.client(), { duplicate: { value: undefined } })]
      for (const client of deaf) {
        const waiting = take(await another(client))
        await inLine(first, 1)
        // Long enough to be told that it may not subscribe.
        await sleep(200)
        const givenAt = performance.now()
        await first.giveBack(1)
        await waiting.done
        expect(performance.now() - givenAt).toBeLessThan(2000)
      }
    })
  })
}
