import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { ALL, OF_ALL, TimeRows } from '../../../../src/operating/cli/replay/timeline.js'

function timelineOf(seconds: readonly number[]): TimeRows {
  const timeline = new TimeRows(2, OF_ALL)
  for (const second of seconds) timeline.add(ALL, second, [second % 2 === 0, second % 2 === 1])
  return timeline
}

test('a minute with few requests is shown by the second', () => {
  expect(timelineOf([60, 60, 63]).summary(30)).toEqual({
    spanSeconds: 1,
    rows: [
      { at: 60, requests: 2, denied: [2, 0] },
      { at: 63, requests: 1, denied: [0, 1] },
    ],
  })
})

test('no request is lost, rows are whole spans in order, and there are never more than requested', () => {
  const moments = fc.array(fc.integer({ min: 31_536_000, max: 7_258_118_399 }), { maxLength: 3000, size: 'max' })
  fc.assert(
    fc.property(moments, fc.integer({ min: 0, max: 6 }), (seconds, squeeze) => {
      const sorted = seconds.map(second => Math.floor(second / 10 ** squeeze)).sort((a, b) => a - b)
      const { rows, spanSeconds } = timelineOf(sorted).summary(30)
      expect(rows.length).toBeLessThanOrEqual(30)
      const recounted = new Map<number, number>()
      for (const second of sorted) {
        const at = second - (second % spanSeconds)
        recounted.set(at, (recounted.get(at) ?? 0) + 1)
      }
      expect(rows.map(({ at, requests }) => [at, requests])).toEqual([...recounted])
      expect(rows.reduce((sum, { denied }) => sum + denied[0] + denied[1], 0)).toBe(sorted.length)
    }),
    // Shrinking thousands of moments would take minutes and tell no more.
    { numRuns: 50, endOnFailure: true },
  )
})

test('one line from another year does not make rows longer', () => {
  const { rows, spanSeconds } = timelineOf([40_000_000, 1_431_856_800, 1_431_856_801, 1_431_856_802]).summary(30)
  expect([rows.length, spanSeconds]).toEqual([4, 1])
})
