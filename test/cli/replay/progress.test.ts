import { expect, test } from '@jest/globals'
import { Progress } from '../../../src/cli/replay/progress.js'
import { ManualClock } from '../../../src/testing.js'

function watched(isTTY: boolean, totalBytes?: number) {
  const clock = new ManualClock()
  const written: string[] = []
  const progress = new Progress({ isTTY, write: text => written.push(text) }, totalBytes, clock)
  return { clock, written, progress }
}

test('a terminal is told five times a second at most, and left as it was found', () => {
  const { clock, written, progress } = watched(true, 4_000_000)
  progress.update(1, 1)
  expect(written).toEqual([])
  clock.set(1000)
  progress.update(1_000_000, 5000)
  progress.update(1_000_000, 5000)
  clock.set(1199)
  progress.update(1_100_000, 5500)
  expect(written).toEqual(['\r\x1b[K25 % of 4.0 MB  5,000 lines  5,000 lines/s  3 s left'])
  progress.clear()
  progress.clear()
  expect(written.slice(1)).toEqual(['\r\x1b[K'])
})

test('of a pipe nobody knows how long it is', () => {
  const { clock, written, progress } = watched(true)
  clock.set(500)
  progress.update(2_500_000_000, 1000)
  expect(written).toEqual(['\r\x1b[K2.5 GB  1,000 lines  2,000 lines/s'])
})

test('a file is told nothing', () => {
  const { clock, written, progress } = watched(false, 10)
  clock.set(500)
  progress.update(5, 5)
  progress.clear()
  expect(written).toEqual([])
})
