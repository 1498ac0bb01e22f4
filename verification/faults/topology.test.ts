import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { evenTags } from '../../src/redis/keys.js'
import { expectExact, expectFelt, expectKept } from '../../test/support/load/promises.js'
import { endure, type Outcome, sceneAt } from '../../test/support/load/trial.js'
import { Load } from '../../test/support/load.js'
import { RedisCluster } from '../../test/support/redis-cluster.js'
import { RedisSentinel } from '../../test/support/redis-sentinel.js'

jest.setTimeout(40_000)

let load: Load
beforeAll(async () => {
  load = await Load.start()
})
afterAll(() => load?.stop())

const slowestBack = ({ back }: Outcome) => Math.max(...Object.values(back))

describe('three processes with 200 decisions in flight each keep their promises', () => {
  describe('under sentinels', () => {
    let group: RedisSentinel
    beforeAll(async () => {
      group = await RedisSentinel.start()
    })
    afterAll(() => group?.stop())
    const scene = () => sceneAt({ kind: 'sentinel', ports: group.sentinels.map(({ port }) => port), name: 'spillway' })

    test('a failover on demand', async () => {
      const outcome = await endure(load, scene(), async () => void (await group.failover()))
      expectKept(outcome.scene, outcome.reports, 2)
      expect(slowestBack(outcome)).toBeLessThan(5000)
    })

    test('the primary killed', async () => {
      const outcome = await endure(load, scene(), async () => {
        const primary = await group.primary()
        await primary.kill()
        await group.promoted(primary)
      })
      expectKept(outcome.scene, outcome.reports, 2)
      expectFelt(outcome.reports)
      expect(slowestBack(outcome)).toBeLessThan(5000)
    })
  })

  describe('on a cluster', () => {
    let cluster: RedisCluster
    beforeAll(async () => {
      cluster = await RedisCluster.start()
    })
    afterAll(() => cluster?.stop())

    test('slots are moved', async () => {
      // More keys of smaller quotas, so that every slot is asked for all the time.
      const place = { kind: 'cluster' as const, ports: cluster.nodes.map(({ port }) => port) }
      const scene = sceneAt(place, { keys: 200, quota: 3, share: 1 })
      const outcome = await endure(load, scene, async () => {
        for (const tag of evenTags(64).slice(0, 10)) {
          const slot = await cluster.slotOf(`{${tag}}`)
          const owner = await cluster.ownerOf(slot)
          await cluster.moveSlot(slot, cluster.nodes.find(node => node !== owner)!, () => pause(50))
        }
      })
      expectKept(outcome.scene, outcome.reports)
      expectExact(outcome.scene, outcome.reports)
      expect(slowestBack(outcome)).toBeLessThan(5000)
    })
  })
})
