import { basename } from 'node:path'
import { printable } from '../../core/printable.js'
import { share } from '../table.js'
import type { SubjectDetails } from './html-details.js'
import type { PageData, PagePolicy, PageRow, PageTable } from './page-data.js'
import type { Report } from './report.js'
import { noteLines } from './report-text.js'

/** Longer gaps are shown as a break: otherwise one stray line of another year would compress everything else into a point. */
const LONGEST_GAP = 24

/** The data of a report's page; the report must have details. */
export function pageFacts(report: Report, log: string): PageData {
  const { by, requests, keys, from, to, trials, details, timeline } = report
  if (details === undefined) throw new Error('replay: the report was made without details')
  const rowAt = new Map(details.timeline.rows.map(row => [row.at, row]))
  const at = columnsOf([...rowAt.keys()], details.timeline.spanSeconds)
  const column = (value: (row: PageRow) => number) =>
    at.map(moment => {
      const row = moment === null ? undefined : rowAt.get(moment)
      return moment === null ? null : row === undefined ? 0 : value(row)
    })
  return {
    log: printable(basename(log)),
    by,
    requests,
    keys,
    from: from ?? null,
    to: to ?? null,
    notes: noteLines(report),
    policies: trials.map(({ text, policy, denied, deniedKeys }, i) => ({
      text: printable(text),
      limits: policy,
      allowed: requests - denied,
      denied,
      share: share(denied, requests),
      deniedKeys,
      waits: waitsOf(details.waits[i]),
    })),
    chart: {
      spanSeconds: details.timeline.spanSeconds,
      at,
      requests: column(row => row.requests),
      denied: trials.map((_, i) => column(row => row.denied[i])),
    },
    rows: timeline,
    tables: [tableOf(details.keys), tableOf(details.others)],
  }
}

function tableOf({ subject, count, spanSeconds, rows, top }: SubjectDetails): PageTable {
  const at = columnsOf(rows, spanSeconds)
  const columns = new Map(at.map((moment, i) => [moment, i]))
  return {
    subject,
    count,
    spanSeconds,
    at,
    rows: top.map(({ key, requests, denied, longestWaits, activity }) => ({
      key: printable(key),
      requests,
      denied,
      longestWaits: longestWaits.map(finite),
      activity: activity.map(row => [columns.get(row.at) as number, row.requests, ...row.denied]),
    })),
  }
}

/** All moments from the first row to the last, but for long gaps. */
function columnsOf(rows: readonly number[], spanSeconds: number): Array<number | null> {
  const at: Array<number | null> = []
  for (const [i, moment] of rows.entries()) {
    const missing = i === 0 ? 0 : (moment - rows[i - 1]) / spanSeconds - 1
    if (missing > LONGEST_GAP) at.push(rows[i - 1] + spanSeconds, null, moment - spanSeconds)
    else for (let gap = missing; gap > 0; gap--) at.push(moment - gap * spanSeconds)
    at.push(moment)
  }
  return at
}

function waitsOf(waits: PagePolicy['waits'] | undefined): PagePolicy['waits'] {
  if (!waits) return null
  return { median: finite(waits.median), ninth: finite(waits.ninth), longest: finite(waits.longest) }
}

/** JSON knows no Infinity. */
function finite(ms: number): number {
  return Number.isFinite(ms) ? ms : -1
}
