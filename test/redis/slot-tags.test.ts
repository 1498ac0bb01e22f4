import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { RedisStore } from '../../src/index.js'
import { parseLimit } from '../../src/limiter/core/limit.js'
import { evenTags, slotOf } from '../../src/redis/keys.js'
import { ALL_CASES } from '../support/cases.js'
import { RedisCluster } from '../support/redis-cluster.js'

const SLOTS = 16_384

/** How slots are split in practice: by `redis-cli --cluster create`, and by whoever rounds up. */
const SPLITS: Record<string, (place: number, nodes: number) => number> = {
  rounded: (place, nodes) => Math.round((place * SLOTS) / nodes),
  'rounded up': (place, nodes) => Math.ceil((place * SLOTS) / nodes),
  'rounded down': (place, nodes) => Math.floor((place * SLOTS) / nodes),
}

/** By how many the numbers of tags on two nodes differ at most. */
function spread(slots: readonly number[], nodes: number, startOf: (place: number, nodes: number) => number): number {
  const counts = new Array<number>(nodes).fill(0)
  let node = 0
  for (const slot of slots) {
    while (slot >= startOf(node + 1, nodes)) node++
    counts[node]++
  }
  return Math.max(...counts) - Math.min(...counts)
}

describe.each(Object.keys(SPLITS))('slots split evenly, %s', name => {
  test('64 tags: any two nodes have as many, or one more, for every number of nodes', () => {
    const slots = evenTags(64).map(slotOf)
    const uneven = Array.from({ length: 1000 }, (_, i) => i + 1).filter(nodes => spread(slots, nodes, SPLITS[name]) > 1)
    expect(uneven).toEqual([])
  })

  test(`${ALL_CASES ? 'any number of tags' : 'one number of tags in 31'}, up to 25 nodes`, () => {
    const uneven: [number, number][] = []
    for (let tags = 1; tags <= 1024; tags += ALL_CASES ? 1 : 31) {
      const slots = evenTags(tags).map(slotOf)
      for (let nodes = 1; nodes <= 25; nodes++) if (spread(slots, nodes, SPLITS[name]) > 1) uneven.push([tags, nodes])
    }
    expect(uneven).toEqual([])
  }, 300_000)
})

test('tags are short and different', () => {
  for (const count of [1, 64, 1024]) {
    const tags = evenTags(count)
    expect(new Set(tags).size).toBe(count)
    expect(tags.filter(tag => !/^\d{1,6}$/.test(tag))).toEqual([])
  }
})

describe.each([3, 6])('on a cluster of %i nodes', nodes => {
  let cluster: RedisCluster
  beforeAll(async () => {
    cluster = await RedisCluster.start({ nodes })
  }, 30_000)
  afterAll(() => cluster?.stop())

  test.each([64, 10, 1])('%i tags lie evenly, and every key has one of them', async tags => {
    const prefix = `even ${tags}`
    const store = new RedisStore(cluster.client(), { prefix, tags })
    const limit = parseLimit({ quota: 5, window: '1h' })
    // A hundred at a time: what a busy machine sends too late is refused.
    for (let first = 0; first < 1500; first += 100) {
      const keys = Array.from({ length: 100 }, (_, i) => `client ${first + i}`)
      await Promise.all(keys.map(key => store.consume([{ key, limit }], 1)))
    }
    const byNode = await Promise.all(
      cluster.nodes.map(async node => {
        const keys = await node.client().keys(`${prefix}:*`)
        return new Set(keys.map(key => /\{(\d+)\}/.exec(key)?.[1]))
      }),
    )
    const counts = byNode.map(({ size }) => size)
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(tags)
    expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1)
  })
})
