import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { LogSorter } from '../../../../src/operating/cli/replay/replay.js'

type Given = Array<{ second: number; id: number }>

function ordered(seconds: readonly number[], capacity: number) {
  const given: Given = []
  const order = new LogSorter(capacity, (second, id) => given.push({ second, id }))
  seconds.forEach((second, id) => {
    order.push(second, id)
  })
  order.flush()
  return { given, order }
}

const sortedStably = (seconds: readonly number[]): Given =>
  seconds.map((second, id) => ({ second, id })).sort((a, b) => a.second - b.second)

const anySecond = fc.oneof(fc.integer({ min: 0, max: 5 }), fc.integer({ min: 0, max: 2 ** 33 - 1 }))

test('lines that fit into memory are sorted as a whole; lines of one second stay in order', () => {
  fc.assert(
    fc.property(fc.array(anySecond, { maxLength: 64 }), seconds => {
      const { given, order } = ordered(seconds, 64)
      expect(given).toEqual(sortedStably(seconds))
      expect([order.whole, order.late]).toEqual([true, 0])
      expect(order.outOfOrder).toBe(seconds.filter((second, i) => i > 0 && second < seconds[i - 1]).length)
    }),
  )
})

test('seconds far in the future are exact at the greatest capacity', () => {
  const last = 7_258_118_400 // 2200-01-01
  const seconds = Array.from({ length: 1000 }, (_, i) => last - (i % 7))
  expect(ordered(seconds, 2 ** 20).given).toEqual(sortedStably(seconds))
})

test('more lines are sorted too, if no line is more than half the capacity away from its place', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(3), { minLength: 17, maxLength: 500 }), fc.nat(9), (jitter, pace) => {
      // Two lines a step, each up to three steps late: none is overtaken by more than seven.
      const step = pace + 1
      const seconds = jitter.map((late, i) => Math.floor(i / 2) * step - Math.min(late, 3) * step + 3 * step)
      const { given, order } = ordered(seconds, 16)
      expect(given).toEqual(sortedStably(seconds))
      expect([order.whole, order.late]).toEqual([false, 0])
    }),
  )
})

test('time never runs back, no line is lost, and lines that came too late are counted', () => {
  fc.assert(
    fc.property(fc.array(anySecond, { maxLength: 300 }), seconds => {
      const { given, order } = ordered(seconds, 8)
      expect(given.map(({ id }) => id).sort((a, b) => a - b)).toEqual(seconds.map((_, id) => id))
      for (let i = 1; i < given.length; i++) expect(given[i].second).toBeGreaterThanOrEqual(given[i - 1].second)
      expect(order.late).toBe(given.filter(({ second, id }) => second !== seconds[id]).length)
    }),
  )
})

test('one line from the far future does not delay the others', () => {
  const seconds = Array.from({ length: 100 }, (_, i) => i)
  seconds[3] = 9_999_999
  const { given, order } = ordered(seconds, 8)
  expect([order.outOfOrder, order.late]).toEqual([1, 0])
  expect(given.at(-1)).toEqual({ second: 9_999_999, id: 3 })
})
