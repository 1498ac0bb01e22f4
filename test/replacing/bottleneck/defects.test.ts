import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, test } from '@jest/globals'
import Original from 'bottleneck'
import { Bottleneck } from '../../../src/replacing/bottleneck/index.js'
import { runChild } from '../../support/child.js'
import { warnings } from '../../support/warnings.js'

const warned = warnings()

/**
 * Defects of bottleneck 2.19.5 in one process that are gone, each by the number of its issue. Those over Redis:
 * redis.test.ts.
 */
describe('what was broken in bottleneck is not', () => {
  const limiters: Bottleneck[] = []
  const limiterOf = (options: Bottleneck.ConstructorOptions = {}) => {
    const limiter = new Bottleneck(options)
    limiters.push(limiter)
    return limiter
  }

  afterEach(async () => {
    await Promise.all(limiters.splice(0).map(limiter => limiter.disconnect()))
  })

  test('a limiter has the names of its class, and done() counts only what was executed', async () => {
    const limiter = limiterOf({ minTime: 50 })
    const names = ['version', 'strategy', 'BottleneckError', 'Group', 'Batcher', 'RedisConnection', 'IORedisConnection']
    const own = limiter as unknown as Record<string, unknown>
    for (const name of names) expect(own[name]).toBe((Bottleneck as unknown as Record<string, unknown>)[name])
    expect(Object.keys(limiter)).not.toContain('strategy')
    const jobs = [1, 2, 3, 4].map(job => limiter.schedule(async () => job))
    const ended = Promise.allSettled(jobs)
    expect(await jobs[0]).toBe(1)
    await limiter.stop()
    await ended
    expect(await limiter.done()).toBe(1)
    const late = limiter.submit(
      () => {},
      error => expect(error).toBeInstanceOf(Bottleneck.BottleneckError),
    )
    expect(late).toBeUndefined()
  })

  test('#185: a reservoir goes on to refresh after updateSettings', async () => {
    const limiter = limiterOf({ reservoir: 2, reservoirRefreshInterval: 100, reservoirRefreshAmount: 2 })
    await limiter.updateSettings({ minTime: 0 })
    await limiter.updateSettings({ reservoir: 1 })
    const results = await Promise.all([1, 2, 3, 4, 5].map(job => limiter.schedule(async () => job)))
    expect(results).toEqual([1, 2, 3, 4, 5])
  })

  test('refreshes keep to their beginning, however often they are late', async () => {
    const limiter = limiterOf({ reservoir: 0, reservoirRefreshInterval: 50, reservoirRefreshAmount: 1 })
    const startedAt = performance.now()
    const launches = await Promise.all(
      Array.from({ length: 10 }, () => limiter.schedule(async () => performance.now() - startedAt)),
    )
    // Never before its moment; by its own lateness after it, which does not add up to the next one.
    launches.forEach((at, index) => {
      expect(at).toBeGreaterThanOrEqual(50 * (index + 1) - 1)
    })
    expect(Math.min(...launches.map((at, index) => at - 50 * (index + 1)))).toBeLessThan(50)
  })

  test('increases that nobody saw add up', async () => {
    const limiter = limiterOf({
      reservoir: 0,
      reservoirIncreaseInterval: 20,
      reservoirIncreaseAmount: 3,
      reservoirIncreaseMaximum: 9,
    })
    await sleep(130)
    expect(await limiter.currentReservoir()).toBe(9)
  })

  test('#181: a job that expires while its function goes on fails once, and nothing throws in a timer', async () => {
    const limiter = limiterOf({ maxConcurrent: 1, minTime: 30 })
    const results = await Promise.allSettled(
      [1, 2, 3].map(job => limiter.schedule({ expiration: 10 }, () => sleep(40, job))),
    )
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    await sleep(60)
    expect(await limiter.running()).toBe(0)
  })

  test('the late result of an attempt that expired does not end the attempt after it', async () => {
    const limiter = limiterOf()
    limiter.on('failed', (_, { retryCount }) => (retryCount === 0 ? 0 : null))
    let attempt = 0
    const result = limiter.schedule({ expiration: 30 }, async () => {
      const own = ++attempt
      await sleep(own === 1 ? 45 : 25)
      return own
    })
    expect(await result).toBe(2)
  })

  test('#194, #112: a queue goes on when jobs fail, expire and are dropped together', async () => {
    const limiter = limiterOf({ maxConcurrent: 2, highWater: 5, strategy: Bottleneck.strategy.LEAK })
    const outcomes = await Promise.allSettled(
      Array.from({ length: 60 }, (_, i) =>
        limiter.schedule({ priority: i % 10, expiration: 15 }, async () => {
          await sleep(i % 3 === 0 ? 25 : 1)
          if (i % 4 === 0) throw new Error('failed')
        }),
      ),
    )
    expect(outcomes).toHaveLength(60)
    expect(limiter.counts()).toEqual({ RECEIVED: 0, QUEUED: 0, RUNNING: 0, EXECUTING: 0 })
    expect(await limiter.running()).toBe(0)
  })

  test('an error in a listener for errors is reported once, and tells nobody else', async () => {
    const limiter = limiterOf()
    let heard = 0
    limiter.on('error', () => {
      heard++
      throw new Error('the listener failed')
    })
    limiter.on('debug', () => {
      throw new Error('so did this one')
    })
    await limiter.schedule(async () => {})
    await sleep(20)
    const afterwards = heard
    await sleep(20)
    expect(heard).toBe(afterwards)
    expect(warned.codes).toContain('SPILLWAY_BOTTLENECK')
    expect(warned.texts[0]).toBe("A listener of Bottleneck's event error failed: the listener failed")
  })

  test('stop leaves the listeners for done, and gives back the places of jobs that it drops', async () => {
    const limiter = limiterOf({ minTime: 50, maxConcurrent: 5 })
    let done = 0
    limiter.on('done', () => done++)
    const results = Promise.allSettled([1, 2, 3].map(job => limiter.schedule(async () => job)))
    await sleep(20)
    await limiter.stop()
    expect((await results).map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected'])
    expect(limiter.Events.listenerCount('done')).toBe(1)
    expect([done, await limiter.running()]).toEqual([1, 0])
  })

  test('times of more than 24 days do not fire at once', async () => {
    const limiter = limiterOf({ minTime: 2 ** 32 })
    const first = limiter.schedule({ expiration: 2 ** 40 }, async () => 'kept')
    const second = limiter.schedule(async () => 'much later')
    expect(await first).toBe('kept')
    expect(await Promise.race([second, sleep(30, 'waits')])).toBe('waits')
    second.catch(() => {})
    await limiter.stop()
  })

  test('a Group does not forget a limiter whose jobs wait or run', async () => {
    const group = new Bottleneck.Group({ maxConcurrent: 1, timeout: 20 })
    const limiter = group.key('a')
    const results = [1, 2, 3].map(job => limiter.schedule(() => sleep(60, job)))
    await sleep(100)
    expect(group.key('a')).toBe(limiter)
    expect(await Promise.all(results)).toEqual([1, 2, 3])
    await sleep(80)
    expect(group.keys()).toEqual([])
  })

  test('an idle limiter with a reservoir does not keep a process alive, a waiting queue does', async () => {
    const { code, stdout } = await runChild(
      `import { Bottleneck } from './src/replacing/bottleneck/light.js'
       const options = { reservoirRefreshInterval: 300, reservoirRefreshAmount: 1 }
       new Bottleneck({ reservoir: 1, ...options })
       new Bottleneck({ reservoir: 0, ...options }).schedule(async () => console.log('served'))`,
    )
    expect([code, stdout]).toEqual([0, 'served\n'])
  })

  test('a callback of submit is called once, also with an error of its own job', async () => {
    const limiter = limiterOf()
    const calls: unknown[][] = []
    await new Promise<void>(resolve => {
      limiter.submit(
        (given: number, callback: Bottleneck.Callback<number>) => callback(null, given, given + 1),
        1,
        (...results) => {
          calls.push(results)
          resolve()
        },
      )
    })
    expect(calls).toEqual([[null, 1, 2]])
  })
})

describe('as with bottleneck', () => {
  type Limiter = InstanceType<typeof Original>
  type Task = () => Promise<void>
  /** The jobs that begin and end, if each goes through its limiters in turn. */
  const play = async (ways: readonly (readonly Limiter[])[]) => {
    const log: string[] = []
    const through = ([first, ...others]: readonly Limiter[], task: Task): Promise<void> =>
      first === undefined ? task() : first.schedule(() => through(others, task))
    const jobs = ways.map((way, n) =>
      through(way, async () => {
        log.push(`begin ${n}`)
        await new Promise(resolve => setTimeout(resolve, 0))
        log.push(`end ${n}`)
      }),
    )
    await Promise.all(jobs)
    return log
  }
  const inTurn = (jobs: readonly number[]) => jobs.flatMap(n => [`begin ${n}`, `end ${n}`])
  const classes = [
    ['the original', Original],
    ['ours', Bottleneck as unknown as typeof Original],
  ] as const

  test.each(classes)('%s: of a few jobs each begins when a short one before it has ended', async (_, Class) => {
    for (const depth of [1, 2, 10]) {
      const way = Array.from({ length: depth }, () => new Class({ maxConcurrent: 10 }))
      expect(await play(Array.from({ length: 6 }, () => way))).toEqual(inTurn([0, 1, 2, 3, 4, 5]))
    }
  })

  test.each(classes)('%s: a job of more limiters begins after those of fewer, as in octokit', async (_, Class) => {
    for (let round = 0; round < 5; round++) {
      const [outer, all] = [new Class(), new Class({ maxConcurrent: 10 })]
      const passing = (minTime: number) => {
        const limiter = new Class({ minTime })
        return { schedule: (next: Task) => limiter.schedule(async () => {}).then(next) } as unknown as Limiter
      }
      const [write, notify] = [passing(20), passing(50)]
      const read = [outer, all]
      const written = [outer, write, all]
      expect(await play([written, read, written])).toEqual(inTurn([1, 0, 2]))
      expect(await play([[outer, write, notify, all], read, read, written])).toEqual(inTurn([1, 2, 0, 3]))
    }
  })
})
