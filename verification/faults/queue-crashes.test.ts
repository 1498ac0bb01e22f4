import { describe, expect, test } from '@jest/globals'
import { DelayQueue } from '../../src/waiting/queue/delay-queue.js'
import { runChild } from '../../test/support/child.js'
import { eventually } from '../../test/support/eventually.js'
import { testRedis } from '../../test/support/test-redis.js'

const redis = testRedis({ args: ['--appendonly', 'yes', '--appendfsync', 'always'] })

/** A process that keeps going while it is not killed: its client tries again soon. */
const preamble = `
  import { Redis } from 'ioredis'
  import { DelayQueue } from './src/waiting/queue/delay-queue.ts'
  const client = new Redis(process.env.REDIS_URL)
  const queue = new DelayQueue(client, 'killed', { visibility: '1s', backoff: () => 0, maxAttempts: 1000 })
`
const producer = `${preamble}
  for (let i = 0; i < 700; i++) {
    const ids = await queue.pushMany([0, 1, 2].map(payload => ({ payload, options: { delay: 1 + (i * 31) % 300 } })))
    await client.rpush('accepted', ...ids)
  }
  process.exit(0)
`
const consumer = `${preamble}
  queue.consume(async ({ id, attempt }) => {
    await client.rpush('done', [id, attempt, process.pid, process.env.KILLED].join(' '))
  }, { concurrency: 5 })
`

describe('a queue whose processes are killed at any moment', () => {
  test('completes all accepted messages, and repeats only those that a killed process left behind', async () => {
    const client = redis.client()
    const env = { REDIS_URL: redis.url }
    const lives = (source: string, spans: readonly number[]) =>
      spans.reduce<Promise<unknown>>(
        (before, timeoutMs) => before.then(() => runChild(source, { env: { ...env, KILLED: 'killed' }, timeoutMs })),
        Promise.resolve(),
      )
    const producers = Promise.all([lives(producer, [900, 20_000]), lives(producer, [1300, 20_000])])
    await Promise.all([producers, lives(consumer, [900, 1100, 800]), lives(consumer, [1200, 950])])
    const queue = new DelayQueue(client, 'killed', { visibility: '1s' })
    const survivor = queue.consume(async ({ id, attempt }) => {
      await client.rpush('done', `${id} ${attempt} here survived`)
    })
    await eventually('everything is done', async () => {
      const { ready, delayed, unacked } = await queue.stats()
      return ready + delayed + unacked === 0
    })
    await survivor.close()
    await queue.close()
    const accepted = await client.lrange('accepted', 0, -1)
    const done = (await client.lrange('done', 0, -1)).map(line => line.split(' '))
    expect(accepted.length).toBeGreaterThanOrEqual(4200)
    const byId = new Map<string, string[][]>()
    for (const entry of done) byId.set(entry[0], [...(byId.get(entry[0]) ?? []), entry])
    expect(accepted.filter(id => !byId.has(id))).toEqual([])
    // All processes that had the message, except the last, were killed.
    const innocent = [...byId.values()]
      .flatMap(entries => entries.slice(0, -1))
      .filter(([, , , fate]) => fate !== 'killed')
    expect(innocent).toEqual([])
    await client.del('accepted', 'done')
  }, 60_000)
})
