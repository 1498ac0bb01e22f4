import { expect, test } from '@jest/globals'
import { ThrottlerStorageService } from '@nestjs/throttler'
import { ThrottlerStorage } from '../../../src/http/adapters/nest-throttler.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { ManualClock } from '../../../src/testing.js'
import { START } from '../../support/stories.js'

test.each([
  ['shorter than ttl', 2000],
  ['as long as ttl', 60_000],
])('while a block lasts that is %s, all times are those of @nestjs/throttler', async (_, blockDuration) => {
  const clock = new ManualClock(START)
  const storages = [new ThrottlerStorage({ store: new MemoryStore({ clock }) }), new ThrottlerStorageService()]
  const answers = await Promise.all(
    storages.map(async storage => {
      const times: unknown[] = []
      for (let i = 0; i < 6; i++) times.push(await storage.increment('k', 60_000, 3, blockDuration, 'default'))
      // Before a block, the original tells a negative time to its end.
      return times.slice(3)
    }),
  )
  expect(answers[0]).toEqual(answers[1])
  expect(answers[0].at(-1)).toMatchObject({
    timeToExpire: 60,
    isBlocked: true,
    timeToBlockExpire: blockDuration / 1000,
  })
})

test('the time to expire runs on while a block lasts, and the count is new when it has ended', async () => {
  const clock = new ManualClock(START)
  const storage = new ThrottlerStorage({ store: new MemoryStore({ clock }) })
  const hit = () => storage.increment('k', 60_000, 1, 5000, 'default')
  await hit()
  const told: unknown[] = []
  for (let i = 0; i < 4; i++) {
    const { timeToExpire, isBlocked, timeToBlockExpire } = await hit()
    told.push([timeToExpire, isBlocked, timeToBlockExpire])
    clock.advance(2000)
  }
  expect(told).toEqual([
    [60, true, 5],
    [58, true, 3],
    [56, true, 1],
    [60, false, 0],
  ])
})
