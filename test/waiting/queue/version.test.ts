import { expect, test } from '@jest/globals'
import { portOf } from '../../../src/redis/clients.js'
import { runScript } from '../../../src/redis/script.js'
import { queueVersion } from '../../../src/redis/scripts.js'
import { ManualClock } from '../../../src/testing.js'
import { DelayQueue } from '../../../src/waiting/queue/delay-queue.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()

test('every change of a queue raises its version, and what only looks does not', async () => {
  const [client, clock] = [redis.client(), new ManualClock(1_700_000_000_000)]
  const queue = new DelayQueue<string>(client, 'versions', { clock, maxAttempts: 1, visibility: 1000 })
  const version = async () =>
    Number(await runScript(portOf(client, 'test'), queueVersion, ['spillway:{versions}:queue:clock'], []))
  let last = await version()
  expect(last).toBe(0)
  const raises = async (act: () => Promise<unknown>) => {
    await act()
    const now = await version()
    expect([act.toString(), now > last]).toEqual([act.toString(), true])
    last = now
  }
  const leaves = async (act: () => Promise<unknown>) => {
    await act()
    expect([act.toString(), await version()]).toEqual([act.toString(), last])
  }
  const receive = async () => (await queue.receive())[0]

  await raises(() => queue.push('later', { id: 'later', delay: '1h' }))
  await leaves(() => queue.receive())
  await leaves(() => queue.stats())
  await leaves(() => queue.inspect())
  await raises(() => queue.reschedule('later', '2h'))
  await raises(() => queue.push('a'))
  let taken = await receive()
  await raises(async () => {})
  await raises(() => taken.extend())
  await raises(() => taken.ack())
  await raises(() => queue.push('b', { id: 'b' }))
  taken = await receive()
  await raises(() => taken.reject('no'))
  await raises(() => queue.redrive())
  await raises(() => queue.pause())
  await leaves(() => queue.receive())
  await raises(() => queue.resume())
  await raises(() => queue.receive())
  clock.advance(2000)
  // Its last visibility has ended: it becomes a dead letter.
  await raises(() => queue.receive())
  await leaves(() => queue.receive())
  await raises(() => queue.push('c', { id: 'c' }))
  await raises(() => queue.cancel('c'))
  await queue.cancel('later')
  expect(await version()).toBe(0)
  await queue.close()
})
