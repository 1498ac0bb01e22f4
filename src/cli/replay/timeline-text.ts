import { formatDuration } from '../../core/duration.js'
import { count, table } from '../table.js'
import type { Report } from './report.js'
import type { TimelineRow } from './timeline.js'

const GLYPHS = {
  unicode: { allowed: '░', denied: '█' },
  ascii: { allowed: '-', denied: '#' },
}
type Glyphs = (typeof GLYPHS)['unicode']

const SHORTEST_BAR = 8
const LONGEST_BAR = 60

/** A row for each span of time, with a bar for each policy: allowed requests, then refused ones. */
export function timelineLines({ timeline, trials }: Report, columns: number, unicode: boolean): string[] {
  const glyphs = unicode ? GLYPHS.unicode : GLYPHS.ascii
  const { rows, spanSeconds } = timeline
  const title = `Timeline, a row for every ${formatDuration(spanSeconds * 1000)}`
  const header = ['from (UTC)', 'requests', ...trials.flatMap((_, i) => [`denied${letterOf(i, trials.length)}`, ''])]
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

/** Which of several policies a column speaks of: ' A', ' B'; nothing for a single one. */
export function letterOf(index: number, policies: number): string {
  if (policies === 1) return ''
  return ` ${index < 26 ? String.fromCharCode(65 + index) : index + 1}`
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
