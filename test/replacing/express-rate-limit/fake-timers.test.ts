import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { Request, RequestHandler } from 'express'
import { MemoryStore } from '../../../src/replacing/express-rate-limit/index.js'
import { OURS, START, THEIRS } from './world.js'

/** Acts like a user's test: calls the middleware and moves the time, without waiting. */
async function call(limiter: RequestHandler, req: Partial<Request> = {}): Promise<string> {
  let outcome = 'refused'
  const res = { setHeader() {}, status() {}, send() {}, headersSent: false }
  await limiter(req as Request, res as never, () => {
    outcome = 'passed'
  })
  return outcome
}

describe('under fake timers', () => {
  beforeEach(() => void jest.useFakeTimers({ now: START }))
  afterEach(() => void jest.useRealTimers())

  test.each([THEIRS, OURS])('$name: a window ends when the fake time reaches its end', async ({ rateLimit }) => {
    const limiter = rateLimit({ windowMs: 60_000, limit: 1, keyGenerator: () => 'me' })
    expect([await call(limiter), await call(limiter)]).toEqual(['passed', 'refused'])
    jest.advanceTimersByTime(59_999)
    expect(await call(limiter)).toBe('refused')
    jest.advanceTimersByTime(1)
    expect([await call(limiter), await call(limiter)]).toEqual(['passed', 'refused'])
  })

  test.each([THEIRS, OURS])('$name: resetTime follows the fake time', async ({ rateLimit }) => {
    const limiter = rateLimit({ windowMs: 60_000, keyGenerator: () => 'me' })
    jest.setSystemTime(new Date('2030-01-01T00:00:00Z'))
    const req = {} as Request & { rateLimit: { resetTime: Date } }
    await call(limiter, req)
    expect(req.rateLimit.resetTime).toEqual(new Date('2030-01-01T00:01:00Z'))
  })

  test('timers that a test can run remove expired keys', async () => {
    const store = new MemoryStore()
    store.init({ windowMs: 1000 })
    await store.increment('me')
    jest.runAllTimers()
    expect(jest.getTimerCount()).toBe(0)
    expect(await store.get('me')).toBeUndefined()
  })

  test('other algorithms use the same time', async () => {
    const limiter = OURS.rateLimit({ limit: 2, windowMs: 1000, algorithm: 'sliding-window', keyGenerator: () => 'me' })
    expect([await call(limiter), await call(limiter), await call(limiter)]).toEqual(['passed', 'passed', 'refused'])
    jest.advanceTimersByTime(999)
    expect(await call(limiter)).toBe('refused')
    jest.advanceTimersByTime(1)
    expect(await call(limiter)).toBe('passed')
  })
})
