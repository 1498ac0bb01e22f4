import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import * as theirs from 'rate-limiter-flexible'
import {
  BurstyRateLimiter,
  RateLimiterMemory,
  RateLimiterQueue,
  RateLimiterQueueError,
  RateLimiterUnion,
  RLWrapperBlackAndWhite,
} from '../../../src/replacing/rate-limiter-flexible/index.js'
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

async function both(play: (module: Module) => Promise<unknown>): Promise<void> {
  const seen = []
  for (const module of MODULES) {
    jest.setSystemTime(1_700_000_000_000)
    seen.push(await play(module))
  }
  expect(seen[1]).toEqual(seen[0])
}

const turns = async () => {
  for (let n = 0; n < 5; n++) await new Promise(resolve => setImmediate(resolve))
}

test('a union answers random calls as rate-limiter-flexible does', async () => {
  for (let i = 0; i < ofCases(60); i++) {
    await both(async ({ RateLimiterMemory, RateLimiterUnion }) => {
      const random = sequence(i)
      const limiters = ['one', 'two', 'three']
        .slice(0, random.integer(1, 3))
        .map(
          keyPrefix =>
            new RateLimiterMemory({ keyPrefix, points: random.integer(0, 6), duration: random.pick([0, 1, 2]) }),
        )
      const union = new RateLimiterUnion(...limiters)
      const story = []
      for (let n = 0; n < 20; n++) {
        story.push(await outcomeOf(() => union.consume(random.pick(['a', 1]), random.integer(1, 2))))
        jest.advanceTimersByTime(random.pick([0, 100, 1000]))
      }
      return story
    })
  }
})

test('a bursty limiter answers random calls as rate-limiter-flexible does', async () => {
  for (let i = 0; i < ofCases(60); i++) {
    await both(async ({ RateLimiterMemory, BurstyRateLimiter }) => {
      const random = sequence(i)
      const [first, burst] = ['first', 'burst'].map(
        keyPrefix =>
          new RateLimiterMemory({ keyPrefix, points: random.integer(0, 4), duration: random.pick([0, 1, 5]) }),
      )
      const bursty = new BurstyRateLimiter(first, burst)
      const story: unknown[] = [(bursty as unknown as { points: number }).points]
      for (let n = 0; n < 20; n++) {
        story.push(await outcomeOf(() => bursty.consume(random.pick(['a', 1]), random.integer(1, 2))))
        story.push(await outcomeOf(() => (bursty as unknown as RateLimiterMemory).get(random.pick(['a', 1]))))
        jest.advanceTimersByTime(random.pick([0, 100, 1000]))
      }
      return story
    })
  }
})

test('black and white lists answer random calls as rate-limiter-flexible does', async () => {
  for (let i = 0; i < ofCases(60); i++) {
    await both(async ({ RateLimiterMemory, RLWrapperBlackAndWhite }) => {
      const random = sequence(i)
      const limiter = new RateLimiterMemory({ points: random.integer(0, 4), duration: 2 })
      const wrapper = new RLWrapperBlackAndWhite({
        limiter,
        blackList: random.pick([undefined, ['a'], ['a', 'b'], [7]]) as string[] | undefined,
        whiteList: random.pick([undefined, ['b'], ['a']]),
        isBlackListed: random.pick([undefined, (key: unknown) => key === 'b']),
        runActionAnyway: random.pick([undefined, true, false]),
      })
      wrapper.blockDuration = 1
      const story: unknown[] = [
        wrapper.keyPrefix,
        wrapper.blockDuration,
        wrapper.execEvenly,
        wrapper.blackList,
        wrapper.runActionAnyway,
      ]
      wrapper.blockDuration = 0
      for (let n = 0; n < 20; n++) {
        const { method, args } = randomCall(random, [0, 1, 2])
        // The limiter's own differences are listed where it is compared.
        if (method === 'reward' || method === 'set' || method === 'block') continue
        const call = (wrapper as unknown as RateLimiterMemory)[method] as (
          ...args: readonly unknown[]
        ) => Promise<unknown>
        story.push([method, args, await outcomeOf(() => call.apply(wrapper, [...args]))])
        jest.advanceTimersByTime(random.pick([0, 100, 1000]))
      }
      return [story, limiter.dump().storage.sort((a, b) => (String(a.key) < String(b.key) ? -1 : 1))]
    })
  }
})

test('a queue serves requests in the order and at the moments of rate-limiter-flexible', async () => {
  for (let i = 0; i < ofCases(40); i++) {
    await both(async ({ RateLimiterMemory, RateLimiterQueue }) => {
      const random = sequence(i)
      const limiter = new RateLimiterMemory({ points: random.integer(1, 3), duration: random.pick([1, 2]) })
      const queue = new RateLimiterQueue(limiter, { maxQueueSize: random.pick([undefined, 4, 50]) })
      const story: unknown[] = []
      for (let n = 0; n < 15; n++) {
        const key = random.pick([undefined, undefined, 'other'])
        const expiresAt = random.integer(0, 4) === 0 ? Math.floor(Date.now() / 1000) + random.integer(1, 3) : 0
        const tokens = random.integer(1, 3)
        outcomeOf(() => queue.removeTokens(tokens, key, expiresAt)).then(outcome =>
          story.push([n, Date.now(), outcome]),
        )
        await turns()
        story.push(await queue.getTokensRemaining(key))
        await jest.advanceTimersByTimeAsync(random.pick([0, 0, 10, 500]))
        await turns()
      }
      for (let n = 0; n < 100; n++) {
        await jest.advanceTimersByTimeAsync(500)
        await turns()
      }
      return story
    })
  }
})

describe('a queue', () => {
  test('keeps nothing of a key for which nobody waits, and no timer', async () => {
    const queue = new RateLimiterQueue(new RateLimiterMemory({ points: 1, duration: 1 }))
    const both = [queue.removeTokens(1, 'a'), queue.removeTokens(1, 'a')]
    await jest.advanceTimersByTimeAsync(1000)
    expect(await Promise.all(both)).toEqual([0, 0])
    await expect(queue.removeTokens(2, 'a')).rejects.toThrow('Requested tokens 2 exceeds maximum 1 tokens per interval')
  })

  test('does not ask all the time if a limiter never allows a request', async () => {
    const limiter = new RateLimiterMemory({ points: 1, duration: 3_000_000 })
    const consume = jest.spyOn(limiter, 'consume')
    const queue = new RateLimiterQueue(limiter)
    await queue.removeTokens(1)
    queue.removeTokens(1).catch(() => {})
    await jest.advanceTimersByTimeAsync(10_000)
    expect(consume).toHaveBeenCalledTimes(2)
  })

  test('rejects with an error of the exported class', async () => {
    const error = new RateLimiterQueueError('too many', 'more')
    expect([error.name, error.message, error.extra, error instanceof Error]).toEqual([
      'CustomError',
      'too many',
      'more',
      true,
    ])
  })
})

test('limiters of rate-limiter-flexible and of ours work together', async () => {
  const first = new theirs.RateLimiterMemory({ points: 1, duration: 5 })
  const bursty = new BurstyRateLimiter(first, new RateLimiterMemory({ points: 1, duration: 5 }))
  await bursty.consume('a')
  await bursty.consume('a')
  await expect(bursty.consume('a')).rejects.toMatchObject({ consumedPoints: 3 })
  const union = new RateLimiterUnion(new theirs.RateLimiterMemory({ points: 5, duration: 5 }))
  expect(Object.keys(await union.consume('a'))).toEqual(['rlflx'])
})

test('an invalid limiter, list or function is refused as in rate-limiter-flexible', async () => {
  const wrong: Array<(module: Module) => unknown> = [
    ({ RateLimiterUnion }) => new RateLimiterUnion(),
    ({ RateLimiterUnion }) => new RateLimiterUnion({} as RateLimiterMemory),
    ({ RLWrapperBlackAndWhite }) => new RLWrapperBlackAndWhite({} as never),
    ({ RLWrapperBlackAndWhite, RateLimiterMemory }) =>
      new RLWrapperBlackAndWhite({
        limiter: new RateLimiterMemory({ points: 1, duration: 1 }),
        isBlackListed: 5 as never,
      }),
  ]
  for (const make of wrong) {
    await both(async module => {
      try {
        return make(module)
      } catch (error) {
        return (error as Error).message.split(': given')[0].split(': expected')[0]
      }
    })
  }
  expect(new RLWrapperBlackAndWhite({ limiter: new RateLimiterMemory({ points: 1, duration: 1 }) }).whiteList).toEqual(
    [],
  )
})
