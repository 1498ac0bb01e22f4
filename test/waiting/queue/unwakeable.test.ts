import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { StoreError } from '../../../src/limiter/core/errors.js'
import { DelayQueue } from '../../../src/waiting/queue/delay-queue.js'
import { eventually } from '../../support/eventually.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()

/** A client that opens no connection for wake-ups. */
const deafClient = () => Object.create(redis.client(), { duplicate: { value: undefined } })

test('a process that is never woken takes what became due while its acknowledgement failed', async () => {
  const queue = new DelayQueue(deafClient(), 'deaf')
  await queue.push('first')
  const [first] = await queue.receive()
  await queue.push('second', { delay: 700 })
  const waiting = queue.receive({ wait: '30s' })
  // Now it knows when the second is due.
  await sleep(400)
  redis.pause()
  await expect(first.ack()).rejects.toThrow(StoreError)
  redis.unpause()
  expect((await waiting).map(({ payload }) => payload)).toEqual(['second'])
  await queue.close()
})

test('a busy process that is never woken wakes no others for an empty queue', async () => {
  const admin = redis.client()
  const queue = new DelayQueue(deafClient(), 'busy')
  let [begun, ends] = [false, () => {}]
  const consumer = queue.consume(() => {
    begun = true
    return new Promise(resolve => {
      ends = resolve
    })
  })
  await queue.push('x')
  await eventually('it is busy', async () => begun)
  await sleep(100)
  await admin.config('RESETSTAT')
  // It rings every second, because no wake-up can come.
  await sleep(1500)
  expect(await admin.info('commandstats')).not.toContain('cmdstat_evalsha')
  ends()
  await consumer.close()
  await queue.close()
})
