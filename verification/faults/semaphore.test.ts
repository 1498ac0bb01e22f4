import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { Semaphore } from '../../src/waiting/semaphore/semaphore.js'
import { Child } from '../../test/support/child.js'
import { eventually } from '../../test/support/eventually.js'
import { RedisServer } from '../../test/support/redis-server.js'

jest.setTimeout(60_000)

let redis: RedisServer
const children = new Set<Child>()
beforeAll(async () => {
  redis = await RedisServer.start()
})
afterAll(async () => {
  for (const child of children) child.kill()
  await redis.stop()
})

let names = 0
const fresh = () => `faults-${names++}`
const open = (name: string, permits?: number) => new Semaphore(redis.client(), name, { permits })

/** A process of its own that has `semaphore`, `client`, and `say`. */
async function start(name: string, work: string, skewMs = 0): Promise<Child> {
  const child = await Child.start(`
    import { setTimeout as sleep } from 'node:timers/promises'
    import { Redis } from 'ioredis'
    import { Semaphore } from './src/waiting/semaphore/semaphore.ts'
    import { answering } from './test/support/answering.ts'
    const real = Date.now
    Date.now = () => real() + ${skewMs}
    const client = new Redis(${redis.port})
    const semaphore = new Semaphore(client, '${name}', { permits: 1 })
    const say = text => process.send(String(text))
    await client.ping()
    answering(async () => { ${work} })`)
  children.add(child)
  return child
}

describe('a release', () => {
  test('wakes the next waiter within 60 ms, twenty times', async () => {
    const name = fresh()
    let held = await open(name, 1).acquire()
    const processes = [open(name), open(name)]
    const took: number[] = []
    for (let i = 0; i < 20; i++) {
      const next = processes[i % 2].acquire()
      await eventually('waits', async () => (await processes[0].waiting()) === 1)
      await sleep(5)
      const releasedAt = performance.now()
      const [, lease] = await Promise.all([held.release(), next])
      took.push(performance.now() - releasedAt)
      held = lease
    }
    expect(Math.max(...took)).toBeLessThan(60)
  })
})

describe('four processes on one permit', () => {
  test('whose clocks are half a second apart: never two at once, all served, and in time', async () => {
    const name = fresh()
    const rounds = 25
    const work = `
      for (let i = 0; i < ${rounds}; i++) {
        await semaphore.use(async () => {
          const inside = await client.incr('inside:${name}')
          if (inside !== 1) say('two at once')
          await sleep(10)
          await client.decr('inside:${name}')
        }, { lease: 400 })
      }
      return 'done'`
    const all = await Promise.all([-500, 0, 0, 500].map(skewMs => start(name, work, skewMs)))
    const startedAt = performance.now()
    expect(await Promise.all(all.map(child => child.ask('go')))).toEqual(Array(4).fill('done'))
    const tookMs = performance.now() - startedAt
    const roundTripMs = await roundTrip()
    // Two round trips more in each turn are the test's own: incr and decr.
    expect(tookMs).toBeLessThan(4 * rounds * (10 + timerMs + 5 * roundTripMs))
  })
})

/** How late a timer of 10 ms is, at most. */
const timerMs = 2

/** The slowest of many calls without other load: the effect of a busy machine. */
async function roundTrip(): Promise<number> {
  const client = redis.client()
  let slowest = 0
  for (let i = 0; i < 200; i++) {
    const before = performance.now()
    await client.ping()
    slowest = Math.max(slowest, performance.now() - before)
  }
  return slowest
}
