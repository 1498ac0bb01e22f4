import { describe, expect, jest, test } from '@jest/globals'
import { Calendar, type CalendarWindow } from '../../../src/limiter/core/calendar.js'
import { PolicyError } from '../../../src/limiter/core/errors.js'
import { countedSpan, parsePolicy } from '../../../src/limiter/core/limit.js'

const at = (text: string) => Date.parse(text)
const HOUR = 3_600_000
const DAY = 24 * HOUR

/** The window of a moment, as local texts with their offsets would be too long: in UTC. */
function span(window: CalendarWindow, timezone: string, moment: string): [start: string, end: string] {
  const { startAt, endAt } = Calendar.of(window, timezone).spanAt(at(moment))
  return [new Date(startAt).toISOString().slice(0, 16), new Date(endAt).toISOString().slice(0, 16)]
}

describe('a window', () => {
  test.each<[string, CalendarWindow, string, string, string, string]>([
    ['an hour', 'hour', 'UTC', '2026-03-01T12:34:56Z', '2026-03-01T12:00', '2026-03-01T13:00'],
    ['a day', 'day', 'UTC', '2026-03-01T00:00:00Z', '2026-03-01T00:00', '2026-03-02T00:00'],
    ['the last ms of a day', 'day', 'UTC', '2026-03-01T23:59:59.999Z', '2026-03-01T00:00', '2026-03-02T00:00'],
    ['a week begins on Monday', 'week', 'UTC', '2026-11-22T23:00:00Z', '2026-11-16T00:00', '2026-11-23T00:00'],
    ['on Monday', 'week', 'UTC', '2026-11-23T00:00:00Z', '2026-11-23T00:00', '2026-11-30T00:00'],
    ['February', 'month', 'UTC', '2026-02-28T23:59:59Z', '2026-02-01T00:00', '2026-03-01T00:00'],
    ['February of a leap year', 'month', 'UTC', '2028-02-29T12:00:00Z', '2028-02-01T00:00', '2028-03-01T00:00'],
    ['December', 'month', 'UTC', '2026-12-31T23:59:59Z', '2026-12-01T00:00', '2027-01-01T00:00'],
    ['a leap year', 'year', 'UTC', '2028-12-31T23:00:00Z', '2028-01-01T00:00', '2029-01-01T00:00'],
    ['a day in Berlin, winter', 'day', 'Europe/Berlin', '2026-01-01T22:59:59Z', '2025-12-31T23:00', '2026-01-01T23:00'],
    ['the day of 23 hours', 'day', 'Europe/Berlin', '2026-03-29T10:00:00Z', '2026-03-28T23:00', '2026-03-29T22:00'],
    ['the day of 25 hours', 'day', 'Europe/Berlin', '2026-10-25T10:00:00Z', '2026-10-24T22:00', '2026-10-25T23:00'],
    ['the skipped hour', 'hour', 'Europe/Berlin', '2026-03-29T01:10:00Z', '2026-03-29T01:00', '2026-03-29T02:00'],
    ['before it', 'hour', 'Europe/Berlin', '2026-03-29T00:59:00Z', '2026-03-29T00:00', '2026-03-29T01:00'],
    ['the first of two hours', 'hour', 'Europe/Berlin', '2026-10-25T00:30:00Z', '2026-10-25T00:00', '2026-10-25T01:00'],
    ['the second', 'hour', 'Europe/Berlin', '2026-10-25T01:30:00Z', '2026-10-25T01:00', '2026-10-25T02:00'],
    [
      'October, an hour longer',
      'month',
      'Europe/Berlin',
      '2026-10-31T12:00:00Z',
      '2026-09-30T22:00',
      '2026-10-31T23:00',
    ],
    ['New York, forward', 'day', 'America/New_York', '2026-03-08T12:00:00Z', '2026-03-08T05:00', '2026-03-09T04:00'],
    ['New York, back', 'day', 'America/New_York', '2026-11-01T12:00:00Z', '2026-11-01T04:00', '2026-11-02T05:00'],
    // Lord Howe: half an hour. Clocks go back from 2:00 (+11) to 1:30 (+10:30), forward from 2:00 (+10:30) to 2:30
    // (+11).
    [
      'Lord Howe, 60 minutes before clocks go back',
      'hour',
      'Australia/Lord_Howe',
      '2026-04-04T14:30:00Z',
      '2026-04-04T14:00',
      '2026-04-04T15:00',
    ],
    [
      'Lord Howe, 30 minutes after',
      'hour',
      'Australia/Lord_Howe',
      '2026-04-04T15:10:00Z',
      '2026-04-04T15:00',
      '2026-04-04T15:30',
    ],
    [
      'Lord Howe, then an hour',
      'hour',
      'Australia/Lord_Howe',
      '2026-04-04T15:30:00Z',
      '2026-04-04T15:30',
      '2026-04-04T16:30',
    ],
    [
      'Lord Howe, minute 0 skipped: before',
      'hour',
      'Australia/Lord_Howe',
      '2026-10-03T15:00:00Z',
      '2026-10-03T14:30',
      '2026-10-03T16:00',
    ],
    [
      'Lord Howe, minute 0 skipped: after',
      'hour',
      'Australia/Lord_Howe',
      '2026-10-03T15:45:00Z',
      '2026-10-03T14:30',
      '2026-10-03T16:00',
    ],
    [
      'Lord Howe, day of 24.5 hours',
      'day',
      'Australia/Lord_Howe',
      '2026-04-04T20:00:00Z',
      '2026-04-04T13:00',
      '2026-04-05T13:30',
    ],
    ['half an hour: Kolkata', 'hour', 'Asia/Kolkata', '2026-05-05T10:31:00Z', '2026-05-05T10:30', '2026-05-05T11:30'],
    [
      'three quarters: Kathmandu',
      'day',
      'Asia/Kathmandu',
      '2026-05-05T18:15:00Z',
      '2026-05-05T18:15',
      '2026-05-06T18:15',
    ],
    ['midnight skipped: Beirut', 'day', 'Asia/Beirut', '2026-03-29T10:00:00Z', '2026-03-28T22:00', '2026-03-29T21:00'],
    ['midnight twice: Havana', 'day', 'America/Havana', '2026-11-01T06:00:00Z', '2026-11-01T04:00', '2026-11-02T05:00'],
    [
      'a date that was left out: Samoa',
      'day',
      'Pacific/Apia',
      '2011-12-30T12:00:00Z',
      '2011-12-30T10:00',
      '2011-12-31T10:00',
    ],
  ])('%s', (_, window, timezone, moment, start, end) => {
    expect(span(window, timezone, moment)).toEqual([start, end])
  })

  test.each(['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Kolkata', 'America/St_Johns', 'UTC'])(
    'is followed by the next one without gap, over two years, in %s',
    timezone => {
      for (const window of ['hour', 'day', 'week', 'month', 'year'] as const) {
        const calendar = Calendar.of(window, timezone)
        const step = window === 'hour' ? 29 * 60_000 : 11 * HOUR
        const to = window === 'hour' ? at('2026-04-10T00:00Z') : at('2028-03-01T00:00Z')
        let { startAt, endAt } = calendar.spanAt(at('2026-03-01T00:00Z'))
        for (let now = startAt; now < to; now += step) {
          const found = calendar.spanAt(now)
          const holds = found.startAt <= now && now < found.endAt && found.endAt - found.startAt <= calendar.longestMs
          if (!holds) throw new Error(`${window} at ${now}: ${JSON.stringify(found)}`)
          if (found.startAt !== startAt) {
            expect(found.startAt).toBe(endAt)
            ;({ startAt, endAt } = found)
          }
        }
      }
    },
  )
})

test.each<[CalendarWindow, string, number]>([
  ['hour', 'UTC', HOUR],
  ['hour', 'Europe/Berlin', HOUR],
  ['hour', 'Australia/Lord_Howe', 1.5 * HOUR],
  ['day', 'UTC', DAY],
  ['day', 'Europe/Berlin', 25 * HOUR],
  ['day', 'Australia/Lord_Howe', 24.5 * HOUR],
  ['day', 'Asia/Tokyo', DAY],
  ['week', 'UTC', 7 * DAY],
  ['week', 'America/New_York', 7 * DAY + HOUR],
  ['month', 'UTC', 31 * DAY],
  ['month', 'Europe/Berlin', 31 * DAY + HOUR],
  ['year', 'UTC', 366 * DAY],
  ['year', 'Europe/Berlin', 366 * DAY],
])('the longest %s in %s', (window, timezone, longestMs) => {
  expect(Calendar.of(window, timezone).longestMs).toBe(longestMs)
})

test('an unknown time zone is an error', () => {
  expect(() => Calendar.of('day', 'Mars/Olympus')).toThrow(PolicyError)
  expect(() => Calendar.of('day', 'Mars/Olympus')).toThrow('timezone "Mars/Olympus": expected a name of the IANA')
})

test('a zone in another spelling is the same count', () => {
  const [name, other] = ['Europe/Berlin', 'europe/berlin'].map(timezone => {
    const [limit] = parsePolicy({ quota: 5, calendar: 'day', timezone })
    return countedSpan(limit)
  })
  expect(other).toBe(name)
})

test('zones that come and go, in any spelling, are kept for at most a hundred calendars', () => {
  const made = jest.spyOn(Intl, 'DateTimeFormat')
  const spellings = Array.from({ length: 400 }, (_, i) =>
    [...'europe/berlin'].map((letter, k) => ((i >> (k % 9)) & 1 ? letter.toUpperCase() : letter)).join(''),
  )
  for (const timezone of spellings) parsePolicy({ quota: 5, calendar: 'day', timezone })
  expect(made.mock.calls.length).toBeLessThanOrEqual(1)
  made.mockRestore()
})
