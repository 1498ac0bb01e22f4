import { expect, test } from '@jest/globals'
import { RecentMap } from '../../../src/operating/live/own-limits.js'

test('keeps the most recently used entries, at least half of its size and never more than its size', () => {
  const map = new RecentMap<number>(100)
  for (let i = 0; i < 2000; i++) {
    map.set(`k${i}`, i)
    expect(map.find('k0')).toBe(0)
    expect(map.size).toBeLessThanOrEqual(100)
    for (let back = 0; back < Math.min(i, 40); back++)
      if (i % 500 === 0) expect(map.find(`k${i - back}`)).toBe(i - back)
  }
  expect(map.find('k1000')).toBeUndefined()
})

test('entries without a request are kept only while there is room', () => {
  const map = new RecentMap<number>(10)
  expect([1, 2, 3, 4, 5, 6].map(i => map.setIfRoom(`k${i}`, i))).toEqual([true, true, true, true, true, false])
  expect(map.find('k6')).toBeUndefined()
  map.delete('k1')
  expect(map.keys().sort()).toEqual(['k2', 'k3', 'k4', 'k5'])
  map.clear()
  expect(map.size).toBe(0)
})
