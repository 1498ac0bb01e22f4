import { describe, expect, test } from '@jest/globals'
import { TopKeys } from '../../../src/operating/observing/top-keys.js'
import { ManualClock } from '../../../src/testing.js'

/** Numbers of [0, 1) that are the same in each run. */
function randoms(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}

/** Ranks from 0 whose probability falls as 1 / (rank + 1) ** exponent. */
function zipf(ranks: number, exponent: number, random: () => number): () => number {
  const sums = new Float64Array(ranks)
  let sum = 0
  for (let rank = 0; rank < ranks; rank++) sums[rank] = sum += 1 / (rank + 1) ** exponent
  return () => {
    const at = random() * sum
    let [low, high] = [0, ranks - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if (sums[middle] > at) high = middle
      else low = middle + 1
    }
    return low
  }
}

describe('keys that are counted without decay', () => {
  const build = (size: number) => new TopKeys({ size, halfLifeMs: Number.POSITIVE_INFINITY, clock: new ManualClock() })

  test('fewer keys than there are places are counted exactly', () => {
    const keys = build(4)
    for (const key of ['a', 'b', 'a', 'c', 'a', 'b']) keys.add(key)
    keys.add('d', 10)
    expect(keys.top(3)).toEqual([
      { key: 'd', count: 10, error: 0 },
      { key: 'a', count: 3, error: 0 },
      { key: 'b', count: 2, error: 0 },
    ])
    expect([keys.total, keys.size]).toEqual([16, 4])
  })

  test.each([
    [512, 0.8],
    [512, 1.1],
    [64, 1.5],
  ])(
    'of %d places, on traffic after Zipf with exponent %d, no count is wrong by more than total ÷ places',
    (size, exponent) => {
      const keys = build(size)
      const next = zipf(100_000, exponent, randoms(size))
      const real = new Map<string, number>()
      const events = 200_000
      for (let i = 0; i < events; i++) {
        const key = `user-${next()}`
        keys.add(key)
        real.set(key, (real.get(key) ?? 0) + 1)
      }
      const bound = events / size
      const counted = keys.top(size)
      expect(counted).toHaveLength(size)
      let largestError = 0
      for (const { key, count, error } of counted) {
        const true_ = real.get(key) ?? 0
        expect(count).toBeGreaterThanOrEqual(true_)
        expect(count - error).toBeLessThanOrEqual(true_)
        expect(error).toBeLessThanOrEqual(bound)
        largestError = Math.max(largestError, count - true_)
      }
      expect(largestError).toBeGreaterThan(0)
      // Nobody above the bound is missing.
      const names = new Set(counted.map(({ key }) => key))
      for (const [key, count] of real) if (count > bound) expect(names).toContain(key)
      expect(counted.reduce((sum, { count }) => sum + count, 0)).toBeCloseTo(events, 3)
    },
  )

  test('an attack with half a million distinct keys hides no key with more than a 512th of the traffic, and takes no memory', () => {
    const keys = build(512)
    const loud = new Map([
      ['loud', 0],
      ['half as loud', 0],
    ])
    const hit = (key: string) => {
      keys.add(key)
      loud.set(key, (loud.get(key) ?? 0) + 1)
    }
    for (let i = 0; i < 500_000; i++) {
      keys.add(`attacker-${i}`)
      if (i % 50 === 0) hit('loud')
      if (i % 100 === 0) hit('half as loud')
    }
    const bound = keys.total / 512
    const [first, second] = keys.top(2)
    expect([first.key, second.key]).toEqual(['loud', 'half as loud'])
    for (const { key, count } of [first, second]) {
      expect(count).toBeGreaterThanOrEqual(loud.get(key) ?? 0)
      expect(count - (loud.get(key) ?? 0)).toBeLessThanOrEqual(bound)
    }
    expect(keys.size).toBe(512)
  })

  test('a long key is kept by its hash', () => {
    const keys = build(2)
    keys.add('x'.repeat(100_000))
    keys.add('x'.repeat(100_000))
    expect(keys.top()).toEqual([{ key: expect.stringMatching(/^#.{43}$/), count: 2, error: 0 }])
  })
})

describe('keys whose counts decay', () => {
  test('a count halves in each half-life, and so does the total', () => {
    const clock = new ManualClock()
    const keys = new TopKeys({ size: 8, halfLifeMs: 1000, clock })
    keys.add('a', 8)
    clock.advance(1000)
    keys.add('b', 8)
    clock.advance(2000)
    expect(keys.top()).toEqual([
      { key: 'b', count: 2, error: 0 },
      { key: 'a', count: 1, error: 0 },
    ])
    expect(keys.total).toBe(3)
  })

  test('keys that were busy ten minutes ago give way to keys that are busy now, within the bound, through days and pauses', () => {
    const clock = new ManualClock(1_700_000_000_000)
    const keys = new TopKeys({ size: 16, clock })
    const random = randoms(7)
    for (let day = 0; day < 5; day++) {
      for (let i = 0; i < 20_000; i++) {
        keys.add(`before-${day}`)
        if (i % 100 === 0) clock.advance(50)
      }
      clock.advance(600_000)
      for (let i = 0; i < 2000; i++) {
        keys.add(i % 3 === 0 ? `now-${day}` : `other-${Math.floor(random() * 1e6)}`)
        if (i % 100 === 0) clock.advance(50)
      }
      const [first] = keys.top(1)
      expect(first.key).toBe(`now-${day}`)
      expect(first.error).toBeLessThanOrEqual(keys.total / 16)
      expect(first.count / keys.total).toBeGreaterThan(0.3)
      clock.advance(86_400_000)
      expect(keys.total).toBeLessThan(1e-9)
    }
  })

  test('a clock that steps back stands still', () => {
    const clock = new ManualClock(10_000)
    const keys = new TopKeys({ size: 4, halfLifeMs: 1000, clock })
    keys.add('a', 4)
    clock.set(0)
    keys.add('a', 4)
    expect(keys.top()).toEqual([{ key: 'a', count: 8, error: 0 }])
    clock.set(11_000)
    expect(keys.total).toBe(4)
  })
})
