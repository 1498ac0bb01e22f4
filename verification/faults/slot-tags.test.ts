import { expect, test } from '@jest/globals'
import { evenTags, slotOf } from '../../src/redis/keys.js'
import { SPLITS, spread } from '../../test/support/slot-splits.js'

test('any number of tags is spread evenly over up to 25 nodes, however the slots are split', () => {
  const uneven: [split: string, tags: number, nodes: number][] = []
  for (let tags = 1; tags <= 1024; tags++) {
    const slots = evenTags(tags).map(slotOf)
    for (const [split, startOf] of Object.entries(SPLITS)) {
      for (let nodes = 1; nodes <= 25; nodes++) if (spread(slots, nodes, startOf) > 1) uneven.push([split, tags, nodes])
    }
  }
  expect(uneven).toEqual([])
}, 300_000)
