import { describe, expect, test } from '@jest/globals'
import { ClockSteps } from '../../src/limiter/store.js'

/** Each answer: what the clock showed, when that was asked for, when it was read. */
function stepsOf(...answers: ReadonlyArray<readonly [nowMs: number, askedAt: number, readAt: number]>): ClockSteps {
  const steps = new ClockSteps()
  for (const answer of answers) steps.note(...answer)
  return steps
}

describe('a clock has stepped back', () => {
  test('if an answer that was asked for after another was read shows an earlier moment', () => {
    const steps = stepsOf([1000, 0, 5], [900, 6, 9])
    expect([899, 900, 950, 1000, 1001].map(at => steps.isDoubtful(at))).toEqual([false, true, true, true, false])
  })

  test('but not if the answers crossed: either may be the older', () => {
    const steps = stepsOf([1007, 1, 5], [1005, 0, 6], [1009, 7, 9])
    expect([1005, 1006, 1007].some(at => steps.isDoubtful(at))).toBe(false)
  })

  test('and an answer that crossed hides no step that comes later', () => {
    const steps = stepsOf([1000, 0, 5], [1004, 3, 8], [950, 9, 12])
    expect(steps.isDoubtful(975)).toBe(true)
  })

  test('for who reads the clock itself, whenever it shows an earlier moment', () => {
    const steps = new ClockSteps()
    for (const now of [100, 200, 150]) steps.note(now)
    expect(steps.isDoubtful(175)).toBe(true)
  })
})

test('what was shown between two steps is doubtful, too', () => {
  const steps = stepsOf([1000, 0, 1], [900, 2, 3], [1200, 4, 5], [1100, 6, 7])
  expect([900, 1050, 1200].every(at => steps.isDoubtful(at))).toBe(true)
  expect([899, 1201].some(at => steps.isDoubtful(at))).toBe(false)
})
