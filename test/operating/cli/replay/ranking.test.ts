import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { type RankedKey, Ranking } from '../../../../src/operating/cli/replay/ranking.js'

function firstOf(keys: readonly RankedKey[], most: number): string[] {
  const ranking = new Ranking(most)
  for (const key of keys) ranking.add(key)
  return ranking.first().map(({ key }) => key)
}

test('most refused first, then most requests, then by key', () => {
  const keys = [
    { key: 'd', requests: 9, denied: [0] },
    { key: 'c', requests: 5, denied: [2] },
    { key: 'b', requests: 5, denied: [2] },
    { key: 'a', requests: 7, denied: [2] },
    { key: 'e', requests: 3, denied: [3] },
  ]
  expect(firstOf(keys, 10)).toEqual(['e', 'a', 'b', 'c', 'd'])
  expect(firstOf(keys, 2)).toEqual(['e', 'a'])
  expect(firstOf(keys, 0)).toEqual([])
})

test('of several policies the one that refuses most decides', () => {
  const keys = [
    { key: 'a', requests: 9, denied: [4, 4] },
    { key: 'b', requests: 9, denied: [0, 5] },
  ]
  expect(firstOf(keys, 10)).toEqual(['b', 'a'])
})

test('the first of many are those that sorting all of them would give', () => {
  const counts = fc.array(fc.tuple(fc.nat(40), fc.nat(5)), { maxLength: 5000, size: 'max' })
  fc.assert(
    fc.property(counts, fc.nat(20), (pairs, most) => {
      const keys = pairs.map(([requests, denied], i) => ({ key: `k${i}`, requests, denied: [denied] }))
      const all = [...keys].sort(
        (a, b) => b.denied[0] - a.denied[0] || b.requests - a.requests || (a.key < b.key ? -1 : 1),
      )
      expect(firstOf(keys, most)).toEqual(all.slice(0, most).map(({ key }) => key))
    }),
    // Shrinking thousands of keys would take minutes and tell no more.
    { numRuns: 50, endOnFailure: true },
  )
})
