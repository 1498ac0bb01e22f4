import { formatDuration } from '../../../limiter/core/duration.js'
import { printable, printableWithin } from '../../../limiter/core/printable.js'
import { count, counted, share, table } from '../table.js'
import type { RankedKey } from './ranking.js'
import { letterOf, noteLines, type Report, skippedLines } from './report.js'
import type { TimelineRow } from './timeline.js'

export const EXAMPLE_LINE = '203.0.113.7 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 512'

interface Page {
  /** The name of the log. */
  readonly log: string
  readonly columns: number
  /** Whether the terminal knows more than ASCII. */
  readonly unicode: boolean
}

/** Why a log with lines cannot be replayed, in one line: none of them is a request. */
export function unreadable({ skipped: { first } }: Report, log: string): string {
  const reason = first
    ? `line ${count(first.line)} is ${printableWithin(first.text, 60) || '(blank)'}`
    : 'all lines are too long'
  return (
    `${log} holds no request: ${reason}; expected an access log in common or combined format, with lines like: ` +
    `${EXAMPLE_LINE}`
  )
}

/** The report for people. Whatever the log holds, no control character is in it. */
export function reportAsText(report: Report, page: Page): string {
  const sections = report.requests === 0 ? [nothing(report, page)] : [summary(report, page), ...findings(report, page)]
  return `${sections.map(lines => lines.join('\n')).join('\n\n')}\n`
}

function nothing({ skipped, complete }: Report, { log }: Page): string[] {
  const name = printable(log)
  const expected = ['Expected an access log in common or combined format, with lines like:', `  ${EXAMPLE_LINE}`]
  if (skipped.lines === 0)
    return [`${name} is empty${complete ? '' : ' so far'}: there is nothing to replay.`, ...expected]
  return [`${name} holds no request in common or combined format.`, ...skippedLines(skipped, count), ...expected]
}

function summary(report: Report, { log }: Page): string[] {
  const { requests, by, from, to, keys } = report
  const who = `${counted(requests, 'request')} by ${counted(keys, 'key')} (--by ${by})`
  return [`${printable(log)}: ${who}, ${utc(from)} to ${utc(to)} UTC`, ...noteLines(report, count)]
}

function findings(report: Report, { columns, unicode }: Page): string[][] {
  return [policyLines(report), keyLines(report, columns), timelineLines(report, columns, unicode)]
}

function policyLines({ requests, trials, keys }: Report): string[] {
  const rows = trials.map(({ text, denied, deniedKeys }, i) => [
    `${letterOf(i, trials.length)} ${printable(text)}`.trim(),
    count(requests - denied),
    count(denied),
    share(denied, requests),
    `${count(deniedKeys)} of ${count(keys)}`,
  ])
  return table(
    [['policy', 'allowed', 'denied', '', 'keys denied'], ...rows],
    ['left', 'right', 'right', 'right', 'right'],
  )
}

function keyLines({ top, trials }: Report, columns: number): string[] {
  if (top.length === 0) return ['No key to name.']
  const refused = trials.some(({ denied }) => denied > 0)
  const numbers = (key: RankedKey) => [...key.denied.map(count), count(key.requests)]
  const header = [...trials.map((_, i) => deniedBy(i, trials.length)), 'requests']
  const left = table(
    [header, ...top.map(numbers)],
    header.map(() => 'right'),
  )
  // The key comes last, so that neither its length nor its script can shift a column.
  const room = Math.max(columns - left[0].length - 2, 20)
  return [
    refused ? 'Keys refused most' : 'No request would have been refused. The busiest keys',
    ...left.map((line, i) => `${line}  ${i === 0 ? 'key' : printableWithin(top[i - 1].key, room)}`),
  ]
}

function utc(second: number | undefined): string {
  return second === undefined ? '' : new Date(second * 1000).toISOString().slice(0, 19).replace('T', ' ')
}

/** The title of a column: which of several policies it speaks of. */
function deniedBy(index: number, policies: number): string {
  return `denied ${letterOf(index, policies)}`.trim()
}

const GLYPHS = {
  unicode: { allowed: '░', denied: '█' },
  ascii: { allowed: '-', denied: '#' },
}
type Glyphs = (typeof GLYPHS)['unicode']

const SHORTEST_BAR = 8
const LONGEST_BAR = 60

/** A row for each span of time, with a bar for each policy: allowed requests, then refused ones. */
function timelineLines({ timeline, trials }: Report, columns: number, unicode: boolean): string[] {
  const glyphs = unicode ? GLYPHS.unicode : GLYPHS.ascii
  const { rows, spanSeconds } = timeline
  const title = `Timeline, a row for every ${formatDuration(spanSeconds * 1000)}`
  const header = ['from (UTC)', 'requests', ...trials.flatMap((_, i) => [deniedBy(i, trials.length), ''])]
  const align = ['left', 'right', ...trials.flatMap(() => ['right', 'left'] as const)] as const
  const cells = (bar: (row: TimelineRow, denied: number) => string) =>
    rows.flatMap((row, i) => {
      const numbers = row.denied.flatMap(denied => [count(denied), bar(row, denied)])
      const line = [momentOf(row.at, spanSeconds), count(row.requests), ...numbers]
      return isAfterGap(rows, i, spanSeconds) ? [header.map((_, column) => (column === 0 ? '...' : '')), line] : [line]
    })
  // Set once with bars of one glyph, to see what the numbers leave to the bars.
  const room = columns - widthOf(table([header, ...cells(() => '|')], align)) + trials.length
  const width = Math.min(Math.max(Math.floor(room / trials.length), SHORTEST_BAR), LONGEST_BAR)
  const busiest = Math.max(...rows.map(row => row.requests))
  const lines = table([header, ...cells((row, denied) => barOf(row, denied, busiest, width, glyphs))], align)
  return [`${title}: ${glyphs.allowed} allowed  ${glyphs.denied} denied`, ...lines]
}

function widthOf(lines: readonly string[]): number {
  return lines.reduce((width, line) => Math.max(width, line.length), 0)
}

/** Even one request beside a million shows as a mark. */
function barOf(row: TimelineRow, denied: number, busiest: number, width: number, glyphs: Glyphs): string {
  const allowed = row.requests - denied
  const least = (allowed > 0 ? 1 : 0) + (denied > 0 ? 1 : 0)
  const length = Math.max(Math.round((row.requests / busiest) * width), least)
  const dark =
    denied === 0
      ? 0
      : Math.max(1, Math.min(Math.round((denied / row.requests) * length), length - (allowed > 0 ? 1 : 0)))
  return glyphs.allowed.repeat(length - dark) + glyphs.denied.repeat(dark)
}

function isAfterGap(rows: readonly TimelineRow[], index: number, spanSeconds: number): boolean {
  return index > 0 && rows[index].at > rows[index - 1].at + spanSeconds
}

/** As exact as the span needs: '2015-05-17', '2015-05-17 10:05', '2015-05-17 10:05:03'. */
function momentOf(second: number, spanSeconds: number): string {
  const text = new Date(second * 1000).toISOString().replace('T', ' ')
  if (spanSeconds % 86_400 === 0) return text.slice(0, 10)
  return text.slice(0, spanSeconds % 60 === 0 ? 16 : 19)
}
