import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { RedisCluster } from './redis-cluster.js'

describe('a Redis cluster for tests', () => {
  let cluster: RedisCluster
  beforeAll(async () => {
    cluster = await RedisCluster.start()
  }, 30_000)
  afterAll(() => cluster.stop())

  test('serves every slot and spreads them over its nodes', async () => {
    const client = cluster.client()
    for (let i = 0; i < 50; i++) await client.set(`k${i}`, i)
    const sizes = await Promise.all(cluster.nodes.map(node => node.client().dbsize()))
    expect(sizes.reduce((a, b) => a + b)).toBe(50)
    expect(Math.min(...sizes)).toBeGreaterThan(0)
  })

  test('a slot moves to another node with its keys, and clients follow', async () => {
    const client = cluster.client()
    await client.set('{moved}:a', '1')
    const slot = await cluster.slotOf('{moved}:b')
    const from = await cluster.ownerOf(slot)
    const to = cluster.nodes.find(node => node !== from) as (typeof cluster.nodes)[0]
    let asked: unknown
    await cluster.moveSlot(slot, to, async () => {
      asked = await from
        .client()
        .get('{moved}:missing')
        .catch(error => error.message)
      expect(await client.get('{moved}:a')).toBe('1')
    })
    expect(asked).toBe(`ASK ${slot} 127.0.0.1:${to.port}`)
    expect(await cluster.ownerOf(slot)).toBe(to)
    expect(await client.get('{moved}:a')).toBe('1')
    expect(await to.client().get('{moved}:a')).toBe('1')
  })
})
