import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { readLogTime } from '../../../../src/operating/cli/replay/access-log.js'
import { logTime } from '../log-line.js'

function read(text: string): number {
  const bytes = Buffer.from(`${text}]`)
  return readLogTime(bytes, 0, bytes.length)
}

const FIRST = Date.UTC(1971, 0, 2) / 1000
const LAST = Date.UTC(2199, 11, 30) / 1000

test('any second in any zone is read as Date reads it', () => {
  fc.assert(
    fc.property(fc.integer({ min: FIRST, max: LAST }), fc.integer({ min: -14 * 60, max: 14 * 60 }), (at, zone) => {
      expect(read(logTime(at, zone))).toBe(at)
    }),
  )
})

test('every day from 1972 to 2199 is read as Date reads it', () => {
  for (let at = Date.UTC(1972, 0, 1) / 1000; at < LAST; at += 86_400)
    if (read(logTime(at)) !== at) throw new Error(logTime(at))
})

// [text, seconds since the epoch or -1, why]
const rows: Array<[string, number, string]> = [
  ['17/May/2015:10:05:03 +0000', 1_431_857_103, 'UTC'],
  ['17/May/2015:12:05:03 +0200', 1_431_857_103, 'east of it it is later'],
  ['17/May/2015:04:35:03 -0530', 1_431_857_103, 'west of it it is earlier, by half hours too'],
  ['30/Jun/2015:23:59:60 +0000', 1_435_708_800, 'a leap second is the first second of July'],
  ['29/Feb/2016:00:00:00 +0000', 1_456_704_000, 'a leap day'],
  ['29/Feb/2015:00:00:00 +0000', -1, 'no leap day'],
  ['29/Feb/2100:00:00:00 +0000', -1, 'no leap day in a full century'],
  ['31/Apr/2015:00:00:00 +0000', -1, 'no 31st of April'],
  ['00/May/2015:00:00:00 +0000', -1, 'no day'],
  ['17/Mai/2015:10:05:03 +0000', -1, 'no month'],
  ['17/may/2015:10:05:03 +0000', -1, 'no server writes it so'],
  ['17/May/1970:10:05:03 +0000', -1, 'before all logs'],
  ['17/May/2200:10:05:03 +0000', -1, 'after all logs'],
  ['17/May/2015:24:00:00 +0000', -1, 'no hour'],
  ['17/May/2015:10:60:00 +0000', -1, 'no minute'],
  ['17/May/2015:10:00:61 +0000', -1, 'no second'],
  ['17/May/2015:10:05:03 00000', -1, 'no sign'],
  ['17/May/2015:10:05:03 +00x0', -1, 'no zone'],
  ['1 /May/2015:10:05:03 +0000', -1, 'no digit'],
  ['17/May/2015:10:05:03', -1, 'too short'],
]

test.each(rows)('%s is %d: %s', (text, second) => {
  expect(read(text)).toBe(second)
})
