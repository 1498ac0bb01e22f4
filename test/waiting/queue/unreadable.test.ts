import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { DelayQueue } from '../../../src/waiting/queue/delay-queue.js'
import type { DelayQueueOptions } from '../../../src/waiting/queue/options.js'
import { eventually } from '../../support/eventually.js'
import { RedisServer } from '../../support/redis-server.js'

let redis: RedisServer
const unhandled: unknown[] = []
const noteUnhandled = (reason: unknown) => unhandled.push(reason)
beforeAll(async () => {
  redis = await RedisServer.start()
  process.on('unhandledRejection', noteUnhandled)
})
afterEach(() => expect(unhandled.splice(0)).toEqual([]))
afterAll(async () => {
  process.off('unhandledRejection', noteUnhandled)
  await redis.stop()
})

let names = 0
function open(options: DelayQueueOptions<string> = {}) {
  const name = `unreadable-${names++}`
  const client = redis.client()
  const queue = new DelayQueue<string>(client, name, options)
  /** Rewrites the record of a message that waits. */
  const rewrite = async (id: string, change: (record: string) => string) => {
    const key = `spillway:{${name}}:queue:messages`
    await client.hset(key, id, change((await client.hget(key, id)) as string))
  }
  const consume = () => {
    const got: string[] = []
    const consumer = queue.consume(async ({ payload }) => {
      got.push(payload)
    })
    return { got, consumer }
  }
  return { queue, rewrite, consume }
}

describe('a record that cannot be read', () => {
  const CASES: ReadonlyArray<readonly [what: string, change: (record: string) => string, reason: RegExp]> = [
    ['is of another version', record => `9${record.slice(1)}`, /version "9".*version "1"/],
    ['is something else entirely', () => 'garbage', /version "g"/],
    ['is empty', () => '', /version ""/],
    ['has headers that are no JSON', record => record.replace('\n', '{"trace\n'), /record cannot be read: .*JSON/],
  ]
  test.each(CASES)(
    'because it %s becomes a dead letter with its reason, and consumers go on',
    async (_, change, reason) => {
      const { queue, rewrite, consume } = open()
      await queue.push('broken', { id: 'broken', delay: 1 })
      await queue.push('intact', { id: 'intact', delay: 5 })
      await rewrite('broken', change)
      const { got, consumer } = consume()
      await eventually('the other is delivered', async () => got.length === 1, 3000)
      await eventually('it is a dead letter', async () => (await queue.stats()).dead === 1, 3000)
      expect(got).toEqual(['intact'])
      expect(await queue.dead()).toMatchObject([{ id: 'broken', attempts: 1, reason: expect.stringMatching(reason) }])
      await queue.push('later')
      await eventually('a later one is delivered', async () => got.length === 2, 3000)
      await consumer.close()
      expect(await queue.stats()).toEqual({ ready: 0, delayed: 0, unacked: 0, dead: 1, nextDueAt: null })
      await queue.close()
    },
  )

  test('stays among the dead letters when they are redriven, and all other calls accept its id', async () => {
    const { queue, rewrite } = open()
    await queue.push('broken', { id: 'broken' })
    await rewrite('broken', () => 'garbage')
    expect(await queue.push('again', { id: 'broken' })).toBeNull()
    expect(await queue.cancel('broken')).toBe(false)
    expect(await queue.reschedule('broken', 5)).toBe(false)
    expect(await queue.receive()).toEqual([])
    expect(await queue.redrive()).toBe(0)
    expect(await queue.redrive({ ids: ['broken'] })).toBe(0)
    expect(await queue.dead()).toMatchObject([{ id: 'broken', payload: 'garbage' }])
    await queue.clear()
    await queue.close()
  })

  test('does not stop the search for other ended visibilities', async () => {
    const { queue, rewrite, consume } = open()
    await queue.push('broken', { id: 'broken' })
    await queue.receive({ visibility: 50 })
    await rewrite('broken', () => 'garbage')
    const { got, consumer } = consume()
    await queue.push('intact')
    await eventually('the other is delivered', async () => got.length === 1, 3000)
    await eventually('it is a dead letter', async () => (await queue.stats()).dead === 1, 3000)
    await consumer.close()
    await queue.close()
  })

  const THROWN: ReadonlyArray<readonly [what: string, thrown: unknown]> = [
    ['an error', new Error('no such field')],
    ['nothing', undefined],
    ['an object without a text', Object.create(null)],
    ['an error whose message is a symbol', Object.assign(new Error('x'), { message: Symbol('why') })],
  ]
  test.each(THROWN)('because its codec throws %s becomes a dead letter, and consumers go on', async (_, thrown) => {
    const decode = (text: string) => {
      if (text === 'broken') throw thrown
      return text
    }
    const { queue, consume } = open({ codec: { encode: text => text, decode } })
    await queue.push('broken', { id: 'broken' })
    await queue.push('intact')
    const { got, consumer } = consume()
    await eventually('the other is delivered', async () => got.length === 1, 3000)
    await eventually('it is a dead letter', async () => (await queue.stats()).dead === 1, 3000)
    expect(await queue.dead()).toMatchObject([
      { id: 'broken', payload: 'broken', reason: expect.stringMatching(/^payload cannot be decoded/) },
    ])
    await consumer.close()
    await queue.close()
  })
})
