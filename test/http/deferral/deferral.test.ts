import { expect, jest, test } from '@jest/globals'
import { Deferral } from '../../../src/http/deferral/deferral.js'
import { ProcessSchedules } from '../../../src/http/deferral/process-schedules.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { ManualClock } from '../../../src/testing.js'
import { SCHEDULES, type ScheduleStore } from '../../../src/waiting/queue/schedules.js'

function setUp(schedules: Partial<ScheduleStore>, clock = new ManualClock()) {
  const limiter = new RateLimiter({ policy: '1/1m', store: new MemoryStore({ clock }) })
  let asked = 0
  const silent = () => {
    asked++
    return new Promise<never>(() => {})
  }
  const store: ScheduleStore = Object.defineProperties(
    { available: true, look: silent, open: silent, write: silent },
    Object.getOwnPropertyDescriptors(schedules),
  )
  const queue = { push: async () => 'id', [SCHEDULES]: store }
  const deferral = new Deferral<object, object>({ queue, message: () => 1, timeout: 30 }, clock, 10)
  return { limiter, deferral, asked: () => asked }
}

test('schedules that do not answer delay an allowed request by at most the deadline, and after some failures are not asked', async () => {
  const { limiter, deferral, asked } = setUp({})
  const startedAt = performance.now()
  for (let i = 0; i < 100; i++) {
    const decision = await limiter.consume(`k${i}`)
    expect(await deferral.admit(limiter, `k${i}`, decision)).toBe(0)
  }
  expect(asked()).toBeLessThan(30)
  expect(performance.now() - startedAt).toBeLessThan(2000)
})

test('a request that asks no schedules, because the limiter or the client has no connection, does not take the turn of a probe', async () => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] })
  try {
    const schedules = { available: true }
    const { limiter, deferral, asked } = setUp({
      get available() {
        return schedules.available
      },
    })
    const decision = await limiter.consume('k')
    const admit = async (given = decision) => {
      const before = asked()
      const admitted = deferral.admit(limiter, 'k', given)
      await jest.advanceTimersByTimeAsync(10)
      expect(await admitted).toBe(0)
      return asked() > before
    }
    while (await admit());
    await jest.advanceTimersByTimeAsync(1000)
    expect(await admit({ ...decision, degraded: true })).toBe(false)
    schedules.available = false
    expect(await admit()).toBe(false)
    schedules.available = true
    expect(await admit()).toBe(true)
  } finally {
    jest.useRealTimers()
  }
})

test('schedules of a client without a connection are not asked', async () => {
  const { limiter, deferral, asked } = setUp({ available: false })
  expect(await deferral.admit(limiter, 'k', await limiter.consume('k'))).toBe(0)
  expect(asked()).toBe(0)
})

test('a request is refused with its own denial when the schedules do not answer within the timeout', async () => {
  const { limiter, deferral } = setUp({})
  await limiter.consume('k')
  const denial = await limiter.consume('k')
  const { decision, accepted } = await deferral.answer(1, limiter, 'k', denial, {})
  expect([accepted, decision]).toEqual([undefined, denial])
})

test('while messages wait an allowed request is deferred, however many requests wait for a deferral', async () => {
  const clock = new ManualClock()
  const kept = new ProcessSchedules(clock)
  let opened = 0
  const { limiter, deferral } = setUp(
    {
      look: async names => kept.look(names),
      // The second message stands in line longer than the deadline of a decision.
      open: async names => (++opened === 1 ? kept.open(names) : new Promise<never>(() => {})),
      write: async (names, texts) => kept.write(names, texts),
    },
    clock,
  )
  await limiter.consume('k')
  const denial = await limiter.consume('k')
  expect((await deferral.answer(1, limiter, 'k', denial, {})).accepted?.status).toBe(202)
  const second = deferral.answer(2, limiter, 'k', denial, {})
  await limiter.reset('k')
  expect(await deferral.admit(limiter, 'k', await limiter.consume('k'))).toBeUndefined()
  expect((await second).accepted).toBeUndefined()
})
