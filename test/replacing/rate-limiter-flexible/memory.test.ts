import { inspect } from 'node:util'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { RateLimiterMemory, RateLimiterRes } from '../../../src/replacing/rate-limiter-flexible/index.js'
import { ofCases } from '../../support/cases.js'
import { MODULES, type Module, outcomeOf, randomCall, sequence } from './side-by-side.js'

beforeEach(() => {
  jest.useFakeTimers({
    now: 1_700_000_000_000,
    doNotFake: ['performance', 'nextTick', 'setImmediate', 'queueMicrotask'],
  })
})
afterEach(() => {
  jest.useRealTimers()
})

const turn = () => new Promise(resolve => setImmediate(resolve))
const SECONDS = [0, 0.25, 1, 2, 10]

/** Plays one thing with theirs and with ours, from the same moment on. */
async function both(play: (module: Module) => unknown): Promise<[expected: unknown, seen: unknown]> {
  const seen = []
  for (const module of MODULES) {
    jest.setSystemTime(1_700_000_000_000)
    seen.push(await play(module))
  }
  return seen as [unknown, unknown]
}

test('random calls get the same answers as from rate-limiter-flexible 11', async () => {
  let calls = 0
  for (let i = 0; i < ofCases(300); i++) {
    const [expected, seen] = await both(async ({ RateLimiterMemory }) => {
      const random = sequence(i)
      const limiter = new RateLimiterMemory({
        points: random.integer(-1, 5),
        duration: random.pick(SECONDS),
        blockDuration: random.pick([0, 0, 1, 3]),
        keyPrefix: random.pick(['rlflx', '', 'mine']),
      })
      const story: unknown[] = []
      for (let n = 0; n < 40; n++) {
        const [method, args] = randomCall(random, SECONDS)
        const call = limiter[method] as (...args: unknown[]) => Promise<unknown>
        story.push([method, args, await outcomeOf(() => call.apply(limiter, args))])
        jest.advanceTimersByTime(random.pick([0, 0, 1, 249, 250, 999, 1000, 2500]))
        calls++
      }
      return story
    })
    expect(seen).toEqual(expected)
  }
  expect(calls).toBe(80 * ofCases(300))
})

test('execEvenly delays each call as long as rate-limiter-flexible does', async () => {
  for (let i = 0; i < ofCases(40); i++) {
    const [expected, seen] = await both(async ({ RateLimiterMemory }) => {
      const random = sequence(i)
      const limiter = new RateLimiterMemory({
        points: random.integer(0, 5),
        duration: random.pick([0, 1, 2]),
        execEvenly: true,
        execEvenlyMinDelayMs: random.pick([undefined, 20, 400]),
      })
      const story: unknown[] = []
      for (let n = 0; n < 20; n++) {
        outcomeOf(() => limiter.consume('a')).then(outcome => story.push([n, Date.now(), outcome]))
        await turn()
        for (const step of [random.integer(1, 50), random.integer(1, 300)]) {
          await jest.advanceTimersByTimeAsync(step)
          await turn()
        }
      }
      await jest.advanceTimersByTimeAsync(5000)
      return story
    })
    expect(seen).toEqual(expected)
  }
})

test('dumps have the form of rate-limiter-flexible, and each package restores the dumps of the other', async () => {
  const fill = async ({ RateLimiterMemory }: Module) => {
    const limiter = new RateLimiterMemory({ points: 3, duration: 5 })
    await limiter.consume('a', 2)
    await limiter.set('b', 9, 0)
    await limiter.penalty(7)
    return limiter
  }
  const [expected, seen] = await both(async module => (await fill(module)).dump())
  expect(seen).toEqual(expected)
  const [dump] = [seen as ReturnType<RateLimiterMemory['dump']>]
  const broken = { ...dump, storage: [...dump.storage, null, { key: {} }, { key: 'old', value: 1, expiresAt: 5 }] }
  for (const detailed of [true, false, undefined]) {
    for (const data of [dump, broken, { version: 2 }, null, { version: 1 }]) {
      const [theirs, ours] = await both(async ({ RateLimiterMemory }) => {
        const limiter = new RateLimiterMemory({ points: 3, duration: 5 })
        const result = limiter.restore(data as typeof dump, detailed as false)
        return [result, await outcomeOf(() => limiter.consume('a')), await outcomeOf(() => limiter.consume('b'))]
      })
      expect(ours).toEqual(theirs)
    }
  }
})

test('members, defaults and keys are those of rate-limiter-flexible', async () => {
  const [expected, seen] = await both(({ RateLimiterMemory }) => {
    const limiter = new RateLimiterMemory({ points: 3, duration: 5, blockDuration: 2 })
    const bare = new RateLimiterMemory({ points: 0, duration: 0, keyPrefix: '', execEvenly: true })
    const of = (l: typeof limiter) => [
      l.points,
      l.duration,
      l.msDuration,
      l.blockDuration,
      l.msBlockDuration,
      l.execEvenly,
      l.execEvenlyMinDelayMs,
      l.keyPrefix,
      l.getKey('k'),
      l.parseKey(l.getKey('k')),
    ]
    limiter.points = 4
    limiter.execEvenlyMinDelayMs = 7
    return [of(limiter), of(bare)]
  })
  expect(seen).toEqual(expected)
})

test('invalid options are refused as by rate-limiter-flexible', async () => {
  const wrong = [
    {},
    { points: '5', duration: 1 },
    { points: 5 },
    { points: 5, duration: -1 },
    { points: Number.NaN, duration: 1 },
    { points: 1, duration: 1, keyPrefix: 5 },
  ]
  for (const options of wrong) {
    const [expected, seen] = await both(({ RateLimiterMemory }) => {
      try {
        return new RateLimiterMemory(options as never).points
      } catch (error) {
        return (error as Error).message.split(':')[0]
      }
    })
    expect(seen).toEqual(expected)
  }
})

describe('an answer', () => {
  test('is printed as by rate-limiter-flexible', async () => {
    const [expected, seen] = await both(({ RateLimiterRes }) => {
      const res = new RateLimiterRes(1, 2, 3, true)
      const cast = new RateLimiterRes()
      cast.isFirstInDuration = 1
      return [
        cast.isFirstInDuration,
        new RateLimiterRes(1, 2, 3, 'yes' as never).isFirstInDuration,
        String(res),
        JSON.stringify(res),
        res.toJSON(),
        new RateLimiterRes().toJSON(),
        inspect({ ...res.toJSON() }),
      ]
    })
    expect(seen).toEqual(expected)
  })

  test('has the exported class', async () => {
    const limiter = new RateLimiterMemory({ points: 0, duration: 1 })
    await expect(limiter.consume('a')).rejects.toBeInstanceOf(RateLimiterRes)
    expect(await limiter.get('a')).toBeInstanceOf(RateLimiterRes)
  })
})

describe('intended differences', () => {
  test('a duration longer than 24.8 days lasts', async () => {
    const limiter = new RateLimiterMemory({ points: 1, duration: 3_000_000 })
    await limiter.consume('a')
    jest.advanceTimersByTime(86_400_000)
    await expect(limiter.consume('a')).rejects.toMatchObject({ consumedPoints: 2 })
  })

  test('there is no timer for a key, and expired keys are removed', async () => {
    const limiter = new RateLimiterMemory({ points: 1, duration: 1 })
    for (let n = 0; n < 1000; n++) await limiter.consume(n)
    expect(jest.getTimerCount()).toBe(1)
    for (let n = 0; n < 50 && jest.getTimerCount() > 0; n++) jest.advanceTimersByTime(1000)
    expect(jest.getTimerCount()).toBe(0)
    expect(limiter.dump().storage).toEqual([])
  })
})
