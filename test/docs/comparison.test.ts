import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { Request, Response } from 'express'
import type { Context } from 'koa'
import { type AlgorithmName, MemoryStore } from '../../src/index.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { textOf } from './pages.js'

const QUOTA = 5
const WINDOW_MS = 1000
const NAMES = [
  'spillway, by default',
  'spillway, `fixed-window`',
  'express-rate-limit',
  'rate-limiter-flexible',
  'koa-ratelimit',
] as const
type Name = (typeof NAMES)[number]

/** Asks whether one request of one client may pass, in memory; peers count by their default. */
type Ask = () => Promise<boolean>

const ours = (algorithm?: AlgorithmName) => () => {
  const limiter = new RateLimiter({ policy: { quota: QUOTA, window: WINDOW_MS, algorithm } })
  return async () => (await limiter.consume('ada')).allowed
}

// Each package is loaded when time stands still already, because some read a clock while they load.
const PEERS: Record<Name, () => Ask> = {
  'spillway, by default': ours(),
  'spillway, `fixed-window`': ours('fixed-window'),
  'express-rate-limit': () => {
    const { rateLimit } = require('express-rate-limit') as typeof import('express-rate-limit')
    const limit = rateLimit({ limit: QUOTA, windowMs: WINDOW_MS, validate: false, keyGenerator: () => 'ada' })
    return () =>
      new Promise((resolve, reject) => {
        const response = { setHeader() {}, status() {}, send: () => resolve(false) }
        void limit({} as Request, response as unknown as Response, error => (error ? reject(error) : resolve(true)))
      })
  },
  'rate-limiter-flexible': () => {
    const { RateLimiterMemory } = require('rate-limiter-flexible') as typeof import('rate-limiter-flexible')
    const limiter = new RateLimiterMemory({ points: QUOTA, duration: WINDOW_MS / 1000 })
    return () =>
      limiter.consume('ada').then(
        () => true,
        () => false,
      )
  },
  'koa-ratelimit': () => {
    const ratelimit = require('koa-ratelimit')
    const limit = ratelimit({ driver: 'memory', db: new Map(), duration: WINDOW_MS, max: QUOTA, id: () => 'ada' })
    return async () => {
      let passed = false
      const next = async () => {
        passed = true
      }
      await limit({ set() {}, state: {} } as unknown as Context, next)
      return passed
    }
  },
}

beforeEach(() => {
  jest.resetModules()
  jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] })
})
afterEach(() => void jest.useRealTimers())

/** The cells of the README's table in a row, without the first. */
function cellsOf(row: string): string[] {
  const line = textOf('README.md')
    .split('\n')
    .find(line => line.startsWith(`| ${row} |`))
  return (line ?? '')
    .split('|')
    .slice(2, -1)
    .map(cell => cell.trim().replace(/^\*\*(.*)\*\*$/, '$1'))
}

describe('the comparison in the README', () => {
  test('names the packages', () => {
    expect(textOf('README.md')).toContain(
      '| | spillway, by default | spillway, `fixed-window` | express-rate-limit 8 | rate-limiter-flexible 11 | koa-ratelimit 6 |',
    )
  })

  test('the most requests that pass in any second under 5 per second', async () => {
    const most: number[] = []
    for (const name of NAMES) {
      const ask = PEERS[name]()
      const passedAt: number[] = []
      const startedAt = Date.now()
      // One request begins a window; the others come shortly before and shortly after its end.
      for (const at of [0, ...Array(10).fill(950), ...Array(10).fill(1050)]) {
        await jest.advanceTimersByTimeAsync(startedAt + at - Date.now())
        if (await ask()) passedAt.push(at)
      }
      most.push(Math.max(...passedAt.map(from => passedAt.filter(at => at >= from && at < from + WINDOW_MS).length)))
    }
    expect(cellsOf('`5/1s`: most requests that pass within one second')).toEqual(most.map(String))
  })

  test('whether a refused request counts', async () => {
    for (const algorithm of ['sliding-window', 'fixed-window'] as const) {
      const limiter = new RateLimiter({ policy: { quota: QUOTA, window: WINDOW_MS, algorithm } })
      for (let i = 0; i < QUOTA + 1; i++) await limiter.consume('ada')
      await limiter.refund('ada')
      expect((await limiter.peek('ada', 0)).remaining).toBe(1)
    }

    const { MemoryStore: HitStore } = require('express-rate-limit') as typeof import('express-rate-limit')
    const hits = new HitStore()
    hits.init({ windowMs: WINDOW_MS } as Parameters<typeof hits.init>[0])
    for (let i = 0; i < QUOTA + 1; i++) await hits.increment('ada')
    expect((await hits.increment('ada')).totalHits).toBe(QUOTA + 2)
    hits.shutdown()

    const { RateLimiterMemory } = require('rate-limiter-flexible') as typeof import('rate-limiter-flexible')
    const points = new RateLimiterMemory({ points: QUOTA, duration: WINDOW_MS / 1000 })
    for (let i = 0; i < QUOTA + 1; i++) await points.consume('ada').catch(() => {})
    expect((await points.get('ada'))?.consumedPoints).toBe(QUOTA + 1)

    expect(cellsOf('a refused request counts as spent')).toEqual(['no', 'no', 'yes', 'yes', 'no'])
  })

  test('whether several limits are decided together', async () => {
    for (const algorithm of ['sliding-window', 'fixed-window']) {
      const policy = [`1/1s ${algorithm}`, `5/1m ${algorithm}`]
      const limiter = new RateLimiter({ policy, store: new MemoryStore() })
      await limiter.consume('ada')
      expect((await limiter.consume('ada')).verdicts.map(({ remaining }) => remaining)).toEqual([0, 4])
    }

    const { RateLimiterMemory, RateLimiterUnion } =
      require('rate-limiter-flexible') as typeof import('rate-limiter-flexible')
    const [second, minute] = [
      new RateLimiterMemory({ keyPrefix: 'second', points: 1, duration: 1 }),
      new RateLimiterMemory({ keyPrefix: 'minute', points: 5, duration: 60 }),
    ]
    const union = new RateLimiterUnion(second, minute)
    await union.consume('ada')
    await union.consume('ada').catch(() => {})
    expect((await minute.get('ada'))?.consumedPoints).toBe(2)

    expect(cellsOf('several limits are charged together or not at all')).toEqual(['yes', 'yes', '–', 'no', '–'])
  })
})
