import { expect, test } from '@jest/globals'
import { Progress } from '../../../../src/operating/cli/replay/log-source.js'
import { ManualClock } from '../../../../src/testing.js'

function watched(isTTY: boolean, totalBytes?: number, { columns = 80, unicode = false } = {}) {
  const clock = new ManualClock()
  const written: string[] = []
  const progress = new Progress({ isTTY, columns, write: text => written.push(text) }, totalBytes, clock, unicode)
  return { clock, written, progress }
}

test('a terminal is updated at most five times a second, and cleared at the end', () => {
  const { clock, written, progress } = watched(true, 4_000_000)
  progress.update(1, 1)
  expect(written).toEqual([])
  clock.set(1000)
  progress.update(1_000_000, 5000)
  progress.update(1_000_000, 5000)
  clock.set(1199)
  progress.update(1_100_000, 5500)
  expect(written).toEqual(['\r\x1b[K######------------------  25 % of 4.0 MB  5,000 lines  5,000 lines/s  3 s left'])
  progress.clear()
  progress.clear()
  expect(written.slice(1)).toEqual(['\r\x1b[K'])
})

test.each([
  [{ unicode: true }, 4, '████████████████████████  100 % of 1 kB  9 lines  9 lines/s  0 s left'],
  [{ unicode: true }, 1, '██████░░░░░░░░░░░░░░░░░░  25 % of 1 kB  9 lines  9 lines/s  3 s left'],
  [{ columns: 40 }, 4, '100 % of 1 kB  9 lines  9 lines/s  0 s '],
])('a bar shows the share that was read, if there is room for it: %j', (terminal, bytes, line) => {
  const { clock, written, progress } = watched(true, 4, terminal)
  clock.set(1000)
  progress.update(bytes, 9)
  expect(written).toEqual([`\r\x1b[K${line}`])
})

test('the length of a pipe is unknown', () => {
  const { clock, written, progress } = watched(true)
  clock.set(500)
  progress.update(2_500_000_000, 1000)
  expect(written).toEqual(['\r\x1b[K2.5 GB  1,000 lines  2,000 lines/s'])
})

test('nothing is written to a file', () => {
  const { clock, written, progress } = watched(false, 10)
  clock.set(500)
  progress.update(5, 5)
  progress.clear()
  expect(written).toEqual([])
})
