import { expect, test } from '@jest/globals'
import { WaitCounts } from '../../../../src/operating/cli/replay/ranking.js'
import { hasManyGaps, TimeRows } from '../../../../src/operating/cli/replay/timeline.js'
import { logLine, TEN_O_CLOCK } from '../log-line.js'
import { replayed } from '../replayed.js'

/** A request of a client for a path, so many seconds after the beginning of the log. */
const line = (second: number, client: string, path = '/') =>
  logLine({ client, at: TEN_O_CLOCK + second, request: `GET ${path} HTTP/1.1` })

test('waits: median, nine in ten, and the longest', () => {
  const waits = new WaitCounts()
  expect(waits.sum()).toBeUndefined()
  for (let ms = 1; ms <= 100; ms++) waits.add(ms)
  expect(waits.sum()).toEqual({ median: 50, p90: 90, longest: 100 })
  waits.add(123_456)
  expect(waits.sum()).toMatchObject({ longest: 123_456 })
  for (let i = 0; i < 1000; i++) waits.add(Number.POSITIVE_INFINITY)
  expect(waits.sum()).toEqual({
    median: Number.POSITIVE_INFINITY,
    p90: Number.POSITIVE_INFINITY,
    longest: Number.POSITIVE_INFINITY,
  })
})

test('refusals are reported for each client and each path, with their longest wait and their times', () => {
  const lines = [
    line(0, '192.0.2.1', '/a'),
    line(0, '192.0.2.1', '/b?x=1'),
    line(20, '192.0.2.1', '/b'),
    line(30, '192.0.2.2', '/a'),
  ]
  const { details } = replayed(lines, { policies: ['1/1m', '2/1m', '0/1m'], details: 5 })
  expect(details?.waits).toEqual([
    { median: 40_000, p90: 60_000, longest: 60_000 },
    { median: 40_000, p90: 40_000, longest: 40_000 },
    { median: Number.POSITIVE_INFINITY, p90: Number.POSITIVE_INFINITY, longest: Number.POSITIVE_INFINITY },
  ])
  const at = TEN_O_CLOCK
  expect(details?.keys).toMatchObject({ subject: 'ip', count: 2, spanSeconds: 1, rows: [at, at + 20, at + 30] })
  expect(details?.keys.top).toEqual([
    {
      key: '192.0.2.1',
      requests: 3,
      denied: [2, 1, 3],
      longestWaits: [60_000, 40_000, Number.POSITIVE_INFINITY],
      activity: [
        { at, requests: 2, denied: [1, 0, 2] },
        { at: at + 20, requests: 1, denied: [1, 1, 1] },
      ],
    },
    {
      key: '192.0.2.2',
      requests: 1,
      denied: [0, 0, 1],
      longestWaits: [0, 0, Number.POSITIVE_INFINITY],
      activity: [{ at: at + 30, requests: 1, denied: [0, 0, 1] }],
    },
  ])
  expect(details?.others.subject).toBe('path')
  expect(details?.others.top.map(({ key, requests, denied }) => [key, requests, ...denied])).toEqual([
    ['/a', 2, 0, 0, 2],
    ['/b', 2, 2, 1, 2],
  ])
})

test('by path, the other table shows addresses; a request without a key counts for its path', () => {
  const lines = [line(0, '192.0.2.1', '/a'), line(1, '192.0.2.1', '/a')]
  expect(replayed(lines, { policies: ['1/1m'], by: 'path', details: 5 }).details).toMatchObject({
    keys: { subject: 'path', top: [{ key: '/a', denied: [1] }] },
    others: { subject: 'ip', top: [{ key: '192.0.2.1', denied: [1] }] },
  })
  expect(replayed(lines, { policies: ['1/1m'], by: 'user', details: 5 }).details).toMatchObject({
    keys: { count: 0, top: [] },
    others: { top: [{ key: '/a', requests: 2, denied: [0] }] },
  })
})

test('without details nothing else is counted', () => {
  expect(replayed([line(0, '192.0.2.1')]).details).toBeUndefined()
})

test('activity keeps its sums while its span grows with the time that it covers', () => {
  const activity = new TimeRows(2)
  const sums = [0, 0, 0].map(() => [0, 0, 0])
  for (let second = 0; second < 1_000_000; second += 37) {
    const id = second % 3
    const refused = [second % 5 === 0, second % 7 === 0]
    activity.add(id, second, refused)
    sums[id][0]++
    for (const i of [0, 1]) if (refused[i]) sums[id][i + 1]++
  }
  activity.finish()
  expect(activity.spanSeconds).toBe(14_400)
  expect(activity.rows).toHaveLength(70)
  for (const [id, sum] of sums.entries()) {
    const rows = activity.of(id)
    expect(rows.map(({ at }) => at)).toEqual(activity.rows)
    expect(
      [0, 1, 2].map(i => rows.reduce((total, { requests, denied }) => total + [requests, ...denied][i], 0)),
    ).toEqual(sum)
  }
})

test('rows with a gap after each form a comb; a few long gaps, or few rows, do not', () => {
  const rows = (count: number, step: number) => Array.from({ length: count }, (_, i) => i * step)
  expect(hasManyGaps(rows(84, 3600), 60)).toBe(true)
  expect(hasManyGaps(rows(84, 3600), 3600)).toBe(false)
  expect(hasManyGaps([...rows(84, 60), 1e9], 60)).toBe(false)
  expect(hasManyGaps(rows(10, 3600), 60)).toBe(false)
})
