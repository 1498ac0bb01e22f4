import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { LivePolicies } from '../../src/operating/live/live-policies.js'
import { Child } from '../../test/support/child.js'
import { eventually } from '../../test/support/eventually.js'
import { randomFrom } from '../../test/support/random.js'
import { RedisServer } from '../../test/support/redis-server.js'

const PROCESSES = 8
const NAMES = Array.from({ length: 5 }, (_, i) => `name${i}`)
const KEYS = Array.from({ length: 10 }, (_, i) => `key${i}`)

/** What holds for each name, and for each key of the first name. */
interface InForce {
  readonly names: readonly number[]
  readonly keys: readonly number[]
}
/** Follows live limits, and tells which are in force. */
const FOLLOWER = `
  import { Redis } from 'ioredis'
  import { LivePolicies } from './src/operating/live/live-policies.ts'
  import { answering } from './test/support/answering.ts'
  const [url, ...lists] = process.argv.slice(2)
  const [names, keys] = lists.map(list => list.split(','))
  const redis = new Redis(url).on('error', () => {})
  const observer = { storeFailed: () => {} }
  const live = new LivePolicies(redis, { defaults: Object.fromEntries(names.map(name => [name, '1/1m'])), observer })
  const quota = (name, key) => live.for(name, key)[0].quota
  answering(() => ({ names: names.map(name => quota(name)), keys: keys.map(key => quota(names[0], key)) }))
`

let redis: RedisServer
let admin: Redis
let workers: Child[]
let live: LivePolicies
beforeAll(async () => {
  redis = await RedisServer.start({ args: ['--appendonly', 'yes', '--appendfsync', 'always'] })
  admin = redis.client()
  live = new LivePolicies(redis.client(), {
    defaults: Object.fromEntries(NAMES.map(name => [name, '1/1m'])),
    observer: { storeFailed: () => {} },
  })
  workers = await Promise.all(
    Array.from({ length: PROCESSES }, () => Child.start(FOLLOWER, [redis.url, NAMES.join(), KEYS.join()])),
  )
}, 60_000)
afterAll(async () => {
  for (const worker of workers) worker.kill()
  await live.close()
  await redis.stop()
})

async function inForce(): Promise<InForce[]> {
  return Promise.all(workers.map(worker => worker.ask<InForce>('what holds')))
}

/** How long all processes take from now on until they enforce what was set last. */
async function agreeAfterMs(expected: InForce): Promise<number> {
  const from = performance.now()
  const wanted = JSON.stringify(expected)
  let found: InForce[] = []
  while (performance.now() - from < 10_000) {
    found = await inForce()
    if (found.every(one => JSON.stringify(one) === wanted)) return performance.now() - from
  }
  throw new Error(`no agreement: ${JSON.stringify(found)}, expected ${wanted}`)
}

const allListen = () =>
  eventually(
    'all processes listen',
    async () => {
      const [, count] = (await admin.pubsub('NUMSUB', 'spillway!live')) as [string, number]
      return count === PROCESSES + 1
    },
    20_000,
  )

const random = randomFrom('live limits')
const names = NAMES.map(() => 1)
/** null: the limit of the name. */
const keys: Array<number | null> = KEYS.map(() => null)
const expected = (): InForce => ({ names, keys: keys.map(quota => quota ?? names[0]) })

/** Changes a random limit. While Redis is away the result is unknown, so the change is repeated until it succeeds. */
async function change(quota: number): Promise<void> {
  const at = random.integer(0, NAMES.length + KEYS.length - 1)
  const key = at < NAMES.length ? undefined : KEYS[at - NAMES.length]
  const clears = key !== undefined && random.integer(1, 4) === 1
  for (;;) {
    try {
      if (clears) await live.clear(NAMES[0], { key })
      else await live.set(key === undefined ? NAMES[at] : NAMES[0], `${quota}/1m`, { key })
      break
    } catch {
      await new Promise(resolve => setTimeout(resolve, 50))
    }
  }
  if (key === undefined) names[at] = quota
  else keys[at - NAMES.length] = clears ? null : quota
}

test('changes every 100 ms, connections that listen killed at random, Redis restarted: all agree within 1 s after all listen again', async () => {
  const waits: number[] = []
  for (let round = 0; round < 4; round++) {
    const ends = performance.now() + 4000
    let restarts = round % 2 === 1
    const changing = (async () => {
      for (let quota = 100 + 100 * round; performance.now() < ends; quota++) {
        const next = performance.now() + 100
        await change(quota)
        await new Promise(resolve => setTimeout(resolve, next - performance.now()))
      }
    })()
    while (performance.now() < ends) {
      const listeners = String(await admin.call('CLIENT', 'LIST', 'TYPE', 'pubsub').catch(() => ''))
      const ids = [...listeners.matchAll(/^id=(\d+)/gm)].map(([, id]) => id)
      if (ids.length > 0) await admin.call('CLIENT', 'KILL', 'ID', random.pick(ids)).catch(() => {})
      await new Promise(resolve => setTimeout(resolve, 150))
      if (restarts && performance.now() > ends - 2000) {
        restarts = false
        await redis.restart()
      }
    }
    await changing
    await allListen()
    waits.push(await agreeAfterMs(expected()))
  }
  console.log(`agreed after ${waits.map(ms => `${ms.toFixed(0)} ms`).join(', ')}`)
  expect(Math.max(...waits)).toBeLessThan(1000)
}, 90_000)
