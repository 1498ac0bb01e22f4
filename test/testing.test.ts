import { describe, expect, test } from '@jest/globals'
import { PolicyError } from '../src/limiter/core/errors.js'
import { ManualClock } from '../src/testing.js'

describe('a manual clock', () => {
  test('stands still until it is moved', async () => {
    const clock = new ManualClock(1000)
    // Real time passes, and the clock does not follow it.
    await new Promise(resolve => setTimeout(resolve, 5))
    expect(clock.now()).toBe(1000)
  })

  test('starts at the epoch if no moment is given', () => expect(new ManualClock().now()).toBe(0))

  test('moves on, back, and to any moment', () => {
    const clock = new ManualClock(1000)
    clock.advance(500)
    expect(clock.now()).toBe(1500)
    clock.advance(-600)
    expect(clock.now()).toBe(900)
    clock.set(Date.UTC(2035, 0, 1))
    expect(clock.now()).toBe(Date.UTC(2035, 0, 1))
    clock.advance(0.25)
    expect(clock.now()).toBe(Date.UTC(2035, 0, 1) + 0.25)
  })

  test.each([Number.NaN, Number.POSITIVE_INFINITY, '5' as unknown as number, undefined as unknown as number])(
    'refuses %p as a time, and stays where it was',
    ms => {
      const clock = new ManualClock(1000)
      expect(() => clock.advance(ms)).toThrow(PolicyError)
      expect(() => clock.set(ms)).toThrow('expected a finite number of milliseconds, like 60_000')
      expect(clock.now()).toBe(1000)
    },
  )

  test('refuses to start at no time', () => expect(() => new ManualClock(Number.NaN)).toThrow(PolicyError))
})
