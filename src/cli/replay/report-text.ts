import { printable, printableWithin } from '../../core/printable.js'
import { count, counted, share, table } from '../table.js'
import type { RankedKey } from './ranking.js'
import type { LineOrder, Report, SkippedLines } from './report.js'
import { letterOf, timelineLines } from './timeline-text.js'

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
  return `${log} holds no request: ${reason}; expected an access log in common or combined format, with lines like: ${EXAMPLE_LINE}`
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
  return [`${name} holds no request in common or combined format.`, ...skippedLines(skipped), ...expected]
}

function summary(report: Report, { log }: Page): string[] {
  const { requests, by, from, to, keys } = report
  const who = `${counted(requests, 'request')} by ${counted(keys, 'key')} (--by ${by})`
  return [`${printable(log)}: ${who}, ${utc(from)} to ${utc(to)} UTC`, ...noteLines(report)]
}

/** The lines of the log: read, skipped, out of order. */
export function noteLines({ by, withoutKey, withHost, complete, order, skipped }: Report): string[] {
  const lines: string[] = []
  if (!complete) lines.push('Only a part: the reading ended before the log did.')
  if (withoutKey > 0)
    lines.push(`Without ${by}: ${counted(withoutKey, 'request')}, under no limit and counted as allowed.`)
  if (withHost > 0) lines.push(`With a virtual host before the client: ${counted(withHost, 'request')}.`)
  return [...lines, ...orderLines(order), ...skippedLines(skipped)]
}

function findings(report: Report, { columns, unicode }: Page): string[][] {
  return [policyLines(report), keyLines(report, columns), timelineLines(report, columns, unicode)]
}

function orderLines({ outOfOrder, sorted, windowLines, late }: LineOrder): string[] {
  if (sorted === 'none') return []
  const many = `Out of order: ${counted(outOfOrder, 'line')}, earlier than the line before;`
  if (sorted === 'whole') return [`${many} the whole log was sorted by time.`]
  const lines = [`${many} too many to hold, so each was sorted by time among the next ${count(windowLines)}.`]
  if (late > 0) lines.push(`Later still: ${counted(late, 'line')}, counted at the time reached by then.`)
  return lines
}

function skippedLines({ lines, overlong, first }: SkippedLines): string[] {
  if (lines === 0) return []
  const long = overlong > 0 ? `, ${count(overlong)} of them too long for a line of a log` : ''
  const where = first ? `; the first is line ${count(first.line)}: ${printableWithin(first.text, 60) || '(blank)'}` : ''
  return [`Skipped: ${counted(lines, 'line')} that hold no request${long}${where}`]
}

function policyLines({ requests, trials, keys }: Report): string[] {
  const rows = trials.map(({ text, denied, deniedKeys }, i) => [
    `${letterOf(i, trials.length).trim()} ${printable(text)}`.trim(),
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
  const header = [...trials.map((_, i) => `denied${letterOf(i, trials.length)}`), 'requests']
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
