import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { expectFelt, expectKept } from '../../test/support/load/promises.js'
import { endure, type Outcome, sceneAt } from '../../test/support/load/trial.js'
import { Load } from '../../test/support/load.js'
import { RedisServer } from '../../test/support/redis-server.js'
import { TcpProxy } from '../../test/support/tcp-proxy.js'

jest.setTimeout(30_000)

/** Less than 50 bytes for each decision of the four seconds: any data kept for a decision would take more. */
const HEAP_NOISE = 2_000_000

let redis: RedisServer
let load: Load
let proxy: TcpProxy
beforeAll(async () => {
  ;[redis, load] = await Promise.all([RedisServer.start(), Load.start()])
})
afterAll(async () => {
  load?.stop()
  await redis?.stop()
})
beforeEach(async () => {
  await redis.client().flushall()
  proxy = await TcpProxy.start(redis.port)
})
afterEach(() => proxy.stop())

const place = () => ({ kind: 'single' as const, ports: [proxy.port] })
const slowestBack = ({ back }: Outcome) => Math.max(...Object.values(back))

describe('three processes with 200 decisions in flight each keep their promises', () => {
  test('0 to 50 ms of latency: Redis decides what it can in time, at most the quota and three shares', async () => {
    const outcome = await endure(load, sceneAt(place()), async () => {
      proxy.delayMs = () => Math.random() * 50
      await pause(1500)
      proxy.delayMs = () => 0
    })
    expectKept(outcome.scene, outcome.reports)
    expect(slowestBack(outcome)).toBeLessThan(1000)
  })

  test('a black hole for 1.4 s: at most the quota and three shares', async () => {
    const outcome = await endure(load, sceneAt(place()), async () => {
      proxy.swallow()
      await pause(1400)
      proxy.release()
    })
    expectKept(outcome.scene, outcome.reports)
    expectFelt(outcome.reports)
    expect(slowestBack(outcome)).toBeLessThan(1000)
  })

  test('the heap stays flat through 5 s of silence', async () => {
    const heaps: number[][] = []
    const scene = sceneAt(place(), { quota: 1_000_000_000, share: 1_000_000_000, sameKeys: true })
    const { reports, back } = await endure(load, scene, async () => {
      proxy.swallow()
      await pause(1000)
      heaps.push(await load.heaps())
      await pause(4000)
      heaps.push(await load.heaps())
      proxy.release()
    })
    expectFelt(reports)
    const [early, late] = heaps
    if (process.env.SPILLWAY_FIGURES) process.stdout.write(`    heaps after 1 s ${early}, after 5 s ${late}\n`)
    expect(late.map((bytes, i) => Math.max(bytes - early[i], HEAP_NOISE))).toEqual(early.map(() => HEAP_NOISE))
    expect(Math.max(...Object.values(back))).toBeLessThan(1000)
  })
})
