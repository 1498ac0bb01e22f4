import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { SpillwayError, TimeoutError } from '../../../src/limiter/core/errors.js'
import type { WaitOptions } from '../../../src/limiter/core/wait.js'
import type { RedisClient } from '../../../src/redis/client.js'
import { eventually } from '../../support/eventually.js'
import { RedisServer } from '../../support/redis-server.js'

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

/** What came of a request. */
interface Taken {
  end?: 'granted' | Error
  readonly done: Promise<void>
}

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
  function taking(line: Line, units = 1, options?: WaitOptions): Taken {
    const done = line.acquire(units, options).then(
      () => {
        taken.end = 'granted'
      },
      error => {
        taken.end = error
      },
    )
    const taken: Taken = { done }
    return taken
  }
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
      const three = taking(await another(), 3)
      await inLine(first, 1)
      const one = taking(await another())
      await inLine(first, 2)
      await first.giveBack(2)
      expect(await first.tryAcquire()).toBe(false)
      expect([three.end, one.end]).toEqual([undefined, undefined])
      await first.giveBack(1)
      await three.done
      expect([three.end, one.end]).toEqual(['granted', undefined])
    })

    test('move up at once when another process gives units back', async () => {
      const { first, another } = await spent(1)
      const waiting = taking(await another())
      await inLine(first, 1)
      const givenAt = performance.now()
      await first.giveBack(1)
      await waiting.done
      expect(waiting.end).toBe('granted')
      expect(performance.now() - givenAt).toBeLessThan(TOLD_MS)
      expect(await first.available()).toBe(0)
    })

    test('that give up reject with the reason of their signal and take nothing, and those behind them move up at once', async () => {
      const { first, another } = await spent(2)
      const [abort, reason] = [new AbortController(), new Error('enough')]
      const two = taking(await another(), 2, { signal: abort.signal })
      await inLine(first, 1)
      const behind = taking(await another())
      await inLine(first, 2)
      await first.giveBack(1)
      expect(behind.end).toBeUndefined()
      const abortedAt = performance.now()
      abort.abort(reason)
      await Promise.all([two.done, behind.done])
      expect([two.end, behind.end]).toEqual([reason, 'granted'])
      expect(performance.now() - abortedAt).toBeLessThan(TOLD_MS)
      expect([await first.waiting(), await first.available()]).toEqual([0, 0])
      await expect(first.acquire(1, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    })

    test('that give up by hundreds at once leave nothing behind', async () => {
      const { first, another } = await spent(1)
      const [crowd, abort] = [await another(), new AbortController()]
      const many = Array.from({ length: 300 }, () => taking(crowd, 1, { signal: abort.signal }))
      await inLine(first, 300)
      const last = taking(await another())
      await inLine(first, 301)
      abort.abort()
      await Promise.all(many.map(({ done }) => done))
      await inLine(first, 1)
      await first.giveBack(1)
      await last.done
      expect(last.end).toBe('granted')
    })

    test('reject at the end of their timeout, and take nothing', async () => {
      const { first, another } = await spent(1)
      const waiting = taking(await another(), 1, { timeout: 60 })
      await waiting.done
      expect(waiting.end).toBeInstanceOf(TimeoutError)
      await inLine(first, 0)
      await first.giveBack(1)
      expect(await first.available()).toBe(1)
    })

    test('reject on close, and have left the line when it resolves, also those whose request is in flight', async () => {
      const { first, another } = await spent(1)
      const closing = await another()
      const lost = Array.from({ length: 300 }, () => taking(closing))
      await inLine(first, 300)
      lost.push(...Array.from({ length: 300 }, () => taking(closing)))
      await closing.close()
      expect(await first.waiting()).toBe(0)
      await Promise.all(lost.map(({ done }) => done))
      for (const { end } of lost) expect(end).toBeInstanceOf(SpillwayError)
      await first.giveBack(1)
      expect(await first.available()).toBe(1)
    })

    test('that come and give up around the moment of a grant leak nothing', async () => {
      const { first, another } = await spent(3)
      await first.giveBack(3)
      await Promise.all(
        Array.from({ length: 10 }, async (_, lane) => {
          const line = await another()
          for (let i = 0; i < 40; i++) {
            const abort = new AbortController()
            const waiting = taking(line, 1, { signal: abort.signal })
            const moment = (lane * 37 + i * 17) % 40
            if (moment < 10) await Promise.resolve()
            // A signal is aborted at any moment around the grant.
            else await sleep(moment / 20)
            abort.abort()
            await waiting.done
            if (waiting.end === 'granted') await line.giveBack(1)
          }
        }),
      )
      await inLine(first, 0)
      expect(await first.available()).toBe(3)
    })

    test('ask again when every listening connection was killed', async () => {
      const { first, another } = await spent(3)
      for (let i = 0; i < 3; i++) {
        const waiting = taking(await another())
        await inLine(first, 1)
        await Promise.all([redis.client().call('CLIENT', 'KILL', 'TYPE', 'pubsub'), first.giveBack(1)])
        await waiting.done
        expect(waiting.end).toBe('granted')
      }
    })

    test('ask about once a second where they cannot listen, because the user may not or the client opens no connection', async () => {
      const user = { username: 'deaf', password: 'secret' }
      await redis.client().call('ACL', 'SETUSER', 'deaf', 'on', '>secret', '~*', '&*', '+@all', '-subscribe')
      const { first, another } = await spent(2)
      const deaf = [redis.client(user), Object.create(redis.client(), { duplicate: { value: undefined } })]
      for (const client of deaf) {
        const waiting = taking(await another(client))
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
