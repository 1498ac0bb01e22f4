import { expect, test } from '@jest/globals'
import { SCHEDULES, type ScheduleStore } from '../../../src/delay-queue/schedule-store.js'
import { Deferral } from '../../../src/http/deferral/deferral.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { MemoryStore } from '../../../src/stores/memory/memory-store.js'
import { ManualClock } from '../../../src/testing.js'

function setUp(schedules: Partial<ScheduleStore>) {
  const clock = new ManualClock()
  const limiter = new RateLimiter({ policy: '1/1m', store: new MemoryStore({ clock }) })
  let asked = 0
  const silent = () => {
    asked++
    return new Promise<never>(() => {})
  }
  const store: ScheduleStore = { available: true, look: silent, open: silent, write: silent, ...schedules }
  const queue = { push: async () => 'id', [SCHEDULES]: store }
  const deferral = new Deferral<object, object>({ queue, message: () => 1, timeout: 30 }, clock, 10)
  return { limiter, deferral, asked: () => asked }
}

test('schedules that do not answer hold up no allowed request longer than the deadline, and soon are not asked', async () => {
  const { limiter, deferral, asked } = setUp({})
  const startedAt = performance.now()
  for (let i = 0; i < 100; i++) {
    const decision = await limiter.consume(`k${i}`)
    expect(await deferral.admit(limiter, `k${i}`, decision)).toBe(0)
  }
  expect(asked()).toBeLessThan(30)
  expect(performance.now() - startedAt).toBeLessThan(2000)
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
