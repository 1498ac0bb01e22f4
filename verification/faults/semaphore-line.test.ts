import { beforeAll, describe, expect, jest, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { semaphoreAsk } from '../../src/redis/scripts.js'
import type { Lease } from '../../src/waiting/semaphore/lease.js'
import { Semaphore } from '../../src/waiting/semaphore/semaphore.js'
import { eventually } from '../../test/support/eventually.js'
import { answerParts, changesText } from '../../test/support/line-words.js'
import { testRedis } from '../../test/support/test-redis.js'
import { longestCall } from './longest-call.js'

jest.setTimeout(90_000)

const redis = testRedis()
let admin: Redis
beforeAll(() => {
  admin = redis.client()
})

let names = 0
const fresh = () => `line-faults-${names++}`
const keyOf = (name: string, part = '') => `spillway:{${name}}:semaphore${part}`
const figure = (text: string) => {
  if (process.env.SPILLWAY_FIGURES) process.stdout.write(`    ${text}\n`)
}

/** Waiters of processes that have died since: `of` each. */
async function ghosts(name: string, processes: number, of: number): Promise<void> {
  const base = keyOf(name)
  for (let p = 0; p < processes; p++) {
    const record = `sent:dead-${p}/0.0`
    const keys = [base, ...['open', 'held', 'line', 'asks', 'meta', record, record].map(part => `${base}:${part}`)]
    let stamp = ''
    for (let from = 0, number = 1; from < of; from += 250, number++) {
      const count = Math.min(250, of - from)
      const joins = Array.from({ length: count }, (_, i) => [
        'j',
        `${from + i} 1 30000 1.0.dead-${p}/0.ghost${from + i}`,
        '',
        '-1',
      ])
      const args = [
        '',
        '',
        '-1',
        'spillway!turns:',
        '0',
        `dead-${p}/0.0`,
        String(number),
        stamp,
        '',
        '',
        changesText(joins.flat()),
        String(Number.MAX_SAFE_INTEGER),
      ]
      const reply = answerParts(await admin.eval(semaphoreAsk.source, keys.length, ...keys, ...args))
      stamp = String(reply[1])
    }
  }
}

/**
 * The processor time of the server for one script call while `work` ran, in ms; all calls do about the same. Not
 * elapsed time.
 */
async function scriptMs(work: () => Promise<void>): Promise<{ calls: number; each: number }> {
  const processor = async () => {
    const info = await admin.info('cpu')
    return (
      1000 *
      ['user', 'sys'].reduce((sum, of) => sum + Number(new RegExp(`used_cpu_${of}:([\\d.]+)`).exec(info)?.[1]), 0)
    )
  }
  await admin.config('RESETSTAT')
  const before = await processor()
  await work()
  const used = (await processor()) - before
  const calls = Number(/cmdstat_evalsha:calls=(\d+)/.exec(await admin.info('commandstats'))?.[1])
  return { calls, each: used / calls }
}

describe('fifty thousand waiters of processes that died', () => {
  test('do not delay a release, and a live waiter behind them gets the permit within 12 s', async () => {
    const name = fresh()
    const semaphore = new Semaphore(redis.client(), name, { permits: 1 })
    const held = await semaphore.acquire()
    await ghosts(name, 5, 10_000)
    const next = new Semaphore(redis.client(), name).acquire()
    await eventually('waits', async () => (await admin.zcard(keyOf(name, ':line'))) === 50_001)
    const longest = await longestCall(redis, admin)
    const releasedAt = performance.now()
    let lease: Lease | undefined
    const { calls, each } = await scriptMs(async () => {
      await held.release()
      lease = await next
    })
    const tookMs = performance.now() - releasedAt
    figure(`over 50 000 dead: ${Math.round(tookMs)} ms, ${calls} calls of ${each.toFixed(2)} ms`)
    expect(tookMs).toBeLessThan(12_000)
    // A call drops two hundred of them at most.
    expect(calls).toBeGreaterThanOrEqual(250)
    expect(each).toBeLessThan(5)
    const { longestMs, waitedMs } = await longest()
    figure(
      `the longest call took ${longestMs.toFixed(2)} ms; the server waited ${waitedMs.toFixed(1)} ms for a processor`,
    )
    expect(longestMs).toBeLessThan(5 + waitedMs)
    await lease?.release()
  })
})
