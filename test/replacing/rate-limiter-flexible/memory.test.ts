import { inspect } from 'node:util'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { RateLimiterMemory, RateLimiterRes } from '../../../src/replacing/rate-limiter-flexible/index.js'
import { ofCases } from '../../support/cases.js'
import { Comparison, MODULES, type Module, outcomeOf, randomCall, sequence } from './side-by-side.js'

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

test('random calls get the answers of rate-limiter-flexible 11, but for the known differences', async () => {
  let compared = 0
  const differences = new Set<string>()
  for (let i = 0; i < ofCases(150); i++) {
    const random = sequence(i)
    const options = {
      points: random.pick([random.integer(-1, 5), random.integer(-1, 5), random.integer(0, 3) + 0.5]),
      duration: random.pick(SECONDS),
      blockDuration: random.pick([0, 0, 1, 3]),
      keyPrefix: random.pick(['rlflx', '', 'mine']),
    }
    const [theirs, ours] = MODULES.map(({ RateLimiterMemory }) => new RateLimiterMemory(options))
    const comparison = new Comparison(theirs, ours)
    const isCustom = random.integer(0, 2) === 0
    for (let n = 0; n < 40; n++) {
      await comparison.call(randomCall(random, SECONDS, isCustom ? random.pick([undefined, ...SECONDS]) : undefined))
      jest.advanceTimersByTime(random.pick([0, 0, 1, 249, 250, 999, 1000, 2500]))
    }
    const played = comparison.end()
    compared += played.compared
    for (const difference of played.differences) differences.add(difference)
  }
  expect(compared).toBeGreaterThan(20 * ofCases(150))
  expect([...differences].sort()).toEqual(['reward of a blocked key', 'set'])
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
  const dump = seen as ReturnType<RateLimiterMemory['dump']>
  const half = { key: 'half', value: 2, expiresAt: 1_700_000_000_000 + 2500 }
  const broken = {
    ...dump,
    storage: [...dump.storage, half, null, { key: {} }, { key: 'old', value: 1, expiresAt: 5 }],
  }
  for (const detailed of [true, false, undefined]) {
    for (const data of [dump, broken, { version: 2 }, null, { version: 1 }]) {
      const [theirs, ours] = await both(async ({ RateLimiterMemory }) => {
        const limiter = new RateLimiterMemory({ points: 3, duration: 5 })
        const result = limiter.restore(data as typeof dump, detailed as false)
        const asked = await Promise.all(['a', 'b', 'half'].map(key => outcomeOf(() => limiter.consume(key))))
        // Theirs counts refused calls of the blocked key, too.
        return [result, asked.map(([kind, value]) => (kind === 'refused' ? [kind, (value as number[])[1]] : value))]
      })
      expect(ours).toEqual(theirs)
    }
  }
})

describe('the cost of a call', () => {
  const decisions = async (limiter: RateLimiterMemory, method: 'consume' | 'get' | 'delete') => {
    const decide = jest.spyOn(RateLimiter.prototype, 'decide')
    await limiter[method]('another')
    const calls = decide.mock.calls.length
    decide.mockRestore()
    return calls
  }

  test('does not grow with the number of custom durations', async () => {
    const limiter = new RateLimiterMemory({ points: 5, duration: 60 })
    for (let i = 0; i < 300; i++) await limiter.consume(`user${i}`, 1, { customDuration: 86_400 - i })
    for (const method of ['consume', 'get', 'delete'] as const) {
      expect(await decisions(limiter, method)).toBeLessThanOrEqual(3)
    }
  })

  test('does not grow with the number of durations that are set', async () => {
    const limiter = new RateLimiterMemory({ points: 5, duration: 60 })
    for (let i = 0; i < 300; i++) {
      limiter.duration = 60 + i
      await limiter.consume(`user${i}`)
    }
    expect(await decisions(limiter, 'consume')).toBeLessThanOrEqual(3)
    expect(await limiter.get('user7')).toMatchObject({ msBeforeNext: 67_000 })
  })

  test('does not grow with the number of keys that are restored', async () => {
    const limiter = new RateLimiterMemory({ points: 5, duration: 60 })
    const record = (i: number) => ({ key: `user${i}`, value: 3 + (i % 5), expiresAt: Date.now() + 3_600_000 + 37 * i })
    const dump = { version: 1, storage: Array.from({ length: 300 }, (_, i) => record(i)) }
    limiter.restore(dump)
    expect(limiter.dump().storage).toEqual(dump.storage)
    for (const method of ['consume', 'get', 'delete'] as const) {
      expect(await decisions(limiter, method)).toBeLessThanOrEqual(3)
    }
  })
})

test('members, defaults and keys are those of rate-limiter-flexible', async () => {
  const [expected, seen] = await both(({ RateLimiterMemory }) => {
    const limiter = new RateLimiterMemory({ points: 3, duration: 5, blockDuration: 2 })
    const bare = new RateLimiterMemory({ points: 0, duration: 0, keyPrefix: '', execEvenly: true })
    const of = (l: typeof limiter) => [
      ...[l.points, l.duration, l.msDuration, l.blockDuration, l.msBlockDuration, l.execEvenly],
      ...[l.execEvenlyMinDelayMs, l.keyPrefix, l.getKey('k'), l.parseKey(l.getKey('k'))],
    ]
    limiter.points = 4
    limiter.execEvenlyMinDelayMs = 7
    return [of(limiter), of(bare)]
  })
  expect(seen).toEqual(expected)
})

test('invalid options are refused as by rate-limiter-flexible', async () => {
  const wrong = [
    ...[{}, { points: '5', duration: 1 }, { points: 5 }, { points: 5, duration: -1 }],
    ...[
      { points: Number.NaN, duration: 1 },
      { points: 1, duration: 1, keyPrefix: 5 },
    ],
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

test('an answer is printed as by rate-limiter-flexible, and has the exported class', async () => {
  const [expected, seen] = await both(({ RateLimiterRes }) => {
    const res = new RateLimiterRes(1, 2, 3, true)
    const cast = new RateLimiterRes()
    cast.isFirstInDuration = 1
    return [
      ...[cast.isFirstInDuration, new RateLimiterRes(1, 2, 3, 'yes' as never).isFirstInDuration, String(res)],
      ...[JSON.stringify(res), res.toJSON(), new RateLimiterRes().toJSON(), inspect({ ...res.toJSON() })],
    ]
  })
  expect(seen).toEqual(expected)
  const limiter = new RateLimiterMemory({ points: 0, duration: 1 })
  await expect(limiter.consume('a')).rejects.toBeInstanceOf(RateLimiterRes)
  expect(await limiter.get('a')).toBeInstanceOf(RateLimiterRes)
})

test('the recipe against guessed passwords works: refused calls count, and get shows it', async () => {
  const byAddress = new RateLimiterMemory({ points: 3, duration: 86_400, blockDuration: 3600, keyPrefix: 'address' })
  const byUser = new RateLimiterMemory({ points: 2, duration: 86_400, keyPrefix: 'user' })
  const login = async (user: string) => {
    const [address, name] = await Promise.all([byAddress.get('192.0.2.1'), byUser.get(user)])
    if (address !== null && address.consumedPoints > byAddress.points) return `wait ${address.msBeforeNext / 1000} s`
    if (name !== null && name.consumedPoints > byUser.points) return `wait ${name.msBeforeNext / 1000} s`
    await Promise.allSettled([byAddress.consume('192.0.2.1'), byUser.consume(user)])
    return 'wrong'
  }
  const answers = []
  for (const user of ['ann', 'ann', 'ann', 'ann', 'bob', 'bob']) answers.push(await login(user))
  expect(answers).toEqual(['wrong', 'wrong', 'wrong', 'wait 86400 s', 'wrong', 'wait 3600 s'])
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
    expect(jest.getTimerCount()).toBeLessThanOrEqual(2)
    for (let n = 0; n < 50 && jest.getTimerCount() > 0; n++) jest.advanceTimersByTime(1000)
    expect(jest.getTimerCount()).toBe(0)
    expect(limiter.dump().storage).toEqual([])
  })

  test('points that are set up to those of the limiter last for its duration; a reward does not end a block', async () => {
    const limiter = new RateLimiterMemory({ points: 5, duration: 2 })
    await limiter.set('a', 4, 100)
    expect(await limiter.get('a')).toMatchObject({ consumedPoints: 4, msBeforeNext: 2000 })
    await limiter.block('a', 10)
    await limiter.reward('a', 6)
    await expect(limiter.consume('a')).rejects.toMatchObject({ msBeforeNext: 10_000, consumedPoints: 6 })
  })
})
