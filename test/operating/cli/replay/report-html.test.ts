import { expect, test } from '@jest/globals'
import { chartOf } from '../../../../src/operating/cli/replay/page/series.js'
import { noteLines, type PageReport } from '../../../../src/operating/cli/replay/report.js'
import { reportAsHtml } from '../../../../src/operating/cli/replay/report-files.js'
import { reportAsText } from '../../../../src/operating/cli/replay/report-text.js'
import { count, share } from '../../../../src/operating/cli/table.js'
import { randomFrom } from '../../../support/random.js'
import { logLine, TEN_O_CLOCK } from '../log-line.js'
import { type Replayed, replayed } from '../replayed.js'

/** Forty clients and eight paths over six hours, some busier than others, a third of the lines out of order. */
const random = randomFrom('a log')
const log = Array.from({ length: 3000 }, (_, i) => {
  const late = random.integer(0, 2) === 0 ? random.integer(0, 300) : 0
  return logLine({
    client: `203.0.113.${random.integer(0, random.integer(1, 40))}`,
    at: TEN_O_CLOCK + 7 * i - late,
    request: `GET /path${random.integer(0, random.integer(1, 8))} HTTP/1.1`,
  })
})

function pageOf(options: Replayed, given: Buffer | readonly string[] = log) {
  const report = replayed(given, { details: 50, ...options })
  const html = reportAsHtml(report, '/var/log/<access>.log')
  const json = /<script type="application\/json" id="data">(.*?)<\/script>/s.exec(html)?.[1] ?? ''
  const text = reportAsText(report, { log: 'access.log', columns: 200, unicode: false })
  return { html, text, data: JSON.parse(json) as PageReport }
}

/** The numbers of the lines of a text, without the commas in thousands. */
const numbersOf = (lines: readonly string[]) =>
  lines.map(line =>
    [...line.matchAll(/(?<![\w./-])\d[\d,]*(?:\.\d+)?(?![\w./-])/g)].map(([text]) => Number(text.replaceAll(',', ''))),
  )

test('the numbers are those of the text report: policies, keys, timeline', () => {
  const { text, data } = pageOf({ policies: ['3/1m', '1/1m', '100/1h'] })
  const [summary, policies, keys, timeline] = text
    .trimEnd()
    .split('\n\n')
    .map(section => section.split('\n'))
  expect(numbersOf(summary)[0].slice(0, 2)).toEqual([data.requests, data.keys])
  expect(summary.slice(1)).toEqual(noteLines(data, count))
  expect(numbersOf(policies.slice(1))).toEqual(
    data.trials.map(({ denied, deniedKeys }) => {
      const percent = Number(share(denied, data.requests).replace(' %', ''))
      return [data.requests - denied, denied, percent, deniedKeys, data.keys]
    }),
  )
  expect(keys.slice(2).map(line => line.trim().split(/\s+/))).toEqual(
    data.details.keys.top
      .slice(0, 10)
      .map(({ key, denied, requests }) => [...denied, requests].map(String).concat(key)),
  )
  expect(timeline.slice(2).filter(line => !line.startsWith('...'))).toHaveLength(data.timeline.rows.length)
  for (const [i, { denied }] of data.trials.entries()) {
    const sum = (values: ReadonlyArray<number | null>) =>
      values.reduce<number>((total, value) => total + (value ?? 0), 0)
    expect(sum(data.timeline.rows.map(row => row.denied[i]))).toBe(denied)
    expect(sum(chartOf(data).denied[i])).toBe(denied)
    // All clients are among the fifty of the page here.
    expect(sum(data.details.keys.top.map(row => row.denied[i]))).toBe(denied)
    expect(sum(data.details.keys.top.flatMap(row => row.activity.map(({ denied }) => denied[i])))).toBe(denied)
    expect(sum(data.details.others.top.map(row => row.denied[i]))).toBe(denied)
  }
})

test('one file: its content security policy forbids every request, and contents of the log are only shown as text', () => {
  const hostile = '203.0.113.7 - - [17/May/2015:10:05:03 +0000] "GET /</script><img/src=x> HTTP/1.1" 200 512'
  const { html, data } = pageOf({ by: 'path', policies: ['0/1m'] }, [hostile])
  expect(html).toMatch(
    /http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'; img-src data:;/,
  )
  expect(html).not.toContain('</script><img')
  expect(data.details.keys.top[0].key).toBe('/</script><img/src=x>')
  expect(html).toContain('<title>&lt;access>.log: what would have been refused</title>')
  expect(html).not.toMatch(/(src|href)="(?!data:)/)
  expect(data.log).toBe('<access>.log')
})

test('a request that never fits is reported as such, and a log without requests has a page too', () => {
  const { data } = pageOf({ policies: ['0/1m', '1000/1m'] })
  expect(data.details.waits.map(waits => waits?.longest)).toEqual([-1, undefined])
  const empty = pageOf({}, ['nothing'])
  expect([empty.data.requests, empty.data.from, chartOf(empty.data).at]).toEqual([0, undefined, []])
  expect(noteLines(empty.data, count)).toHaveLength(1)
})

test('a long gap becomes a break, a short one is filled', () => {
  const line = (second: number) => logLine({ at: TEN_O_CLOCK + second })
  const { data } = pageOf({}, [line(0), line(3), line(1000)])
  const at = TEN_O_CLOCK
  const chart = chartOf(data)
  expect(chart.at).toEqual([at, at + 1, at + 2, at + 3, at + 4, null, at + 999, at + 1000])
  expect(chart.requests).toEqual([1, 0, 0, 1, 0, null, 0, 1])
})
