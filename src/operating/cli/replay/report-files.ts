import { createHash } from 'node:crypto'
import { access, constants, open, stat, writeFile } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { SpillwayError } from '../../../limiter/core/errors.js'
import { printable, printableJson } from '../../../limiter/core/printable.js'
import { pageFiles } from '../../dashboard/page-files.js'
import { shownArgument, UsageError } from '../arguments.js'
import type { Report, TrialResult } from './report.js'

/** One object for one policy, a list for several. */
export function reportAsJson(report: Report): string {
  const objects = report.trials.map((trial, i) => jsonOf(report, trial, i))
  return `${printableJson(objects.length === 1 ? objects[0] : objects)}\n`
}

function jsonOf(report: Report, trial: TrialResult, index: number): object {
  const { timeline, skipped, order } = report
  return {
    policy: trial.text,
    limits: trial.policy,
    by: report.by,
    complete: report.complete,
    requests: report.requests,
    skipped: skipped.lines,
    allowed: report.requests - trial.denied,
    denied: trial.denied,
    keys: report.keys,
    deniedKeys: trial.deniedKeys,
    withoutKey: report.withoutKey,
    withHost: report.withHost,
    from: isoOf(report.from),
    to: isoOf(report.to),
    order,
    firstSkipped: skipped.first ?? null,
    top: trial.top.map(({ key, requests, denied }) => ({ key, requests, denied: denied[0] })),
    timeline: {
      spanSeconds: timeline.spanSeconds,
      rows: timeline.rows.map(({ at, requests, denied }) => ({
        at: isoOf(at),
        requests,
        allowed: requests - denied[index],
        denied: denied[index],
      })),
    },
  }
}

function isoOf(second: number | undefined): string | null {
  return second === undefined ? null : `${new Date(second * 1000).toISOString().slice(0, 19)}Z`
}

/** The report as one page without other files. Its content security policy forbids all requests. */
export function reportAsHtml(report: Report, log: string): string {
  const { top: _, ...facts } = report
  const trials = report.trials.map(({ top: _, ...trial }) => trial)
  const data = { ...facts, trials, log: basename(log) }
  const { script, style } = pageFiles().replay
  const policy =
    `default-src 'none'; script-src '${hashOf(script)}'; style-src '${hashOf(style)}'; img-src data:; base-uri ` +
    "'none'; form-action 'none'"
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>${escaped(printable(data.log))}: what would have been refused</title>
<style>${style}</style>
</head>
<body>
<div id="app"><p class="column">This report needs JavaScript, which is part of this file.</p></div>
<script type="application/json" id="data">${JSON.stringify(data, forPage).replaceAll('<', '\\u003c')}</script>
<script>${script}</script>
</body>
</html>
`
}

/** Texts of a log as they may be shown; JSON knows no Infinity. */
function forPage(_: string, value: unknown): unknown {
  if (typeof value === 'string') return printable(value)
  return value === Number.POSITIVE_INFINITY ? -1 : value
}

function hashOf(text: string): string {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}

/**
 * Checks that the page can be written, so that an error comes before the log is read. Changes nothing: the log may turn
 * out to be unreadable. Throws `UsageError` if the file is the log itself, under any name, else `SpillwayError`.
 */
export async function checkPageFile(file: string, log: string): Promise<void> {
  const exists = await withWriteError(file, () => isWritable(file))
  if (!exists || log === '-') return
  const [page, read] = await Promise.all([stat(file), stat(log)])
  if (page.ino === read.ino && page.dev === read.dev) {
    throw new UsageError('--html: given the log itself, expected another file, like --html report.html')
  }
}

/** False if the file can be made; rejects if it cannot be written. */
async function isWritable(file: string): Promise<boolean> {
  try {
    await (await open(file, constants.O_WRONLY | constants.O_APPEND)).close()
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    await access(dirname(file), constants.W_OK)
    return false
  }
}

export function writePage(file: string, page: string): Promise<void> {
  return withWriteError(file, () => writeFile(file, page))
}

async function withWriteError<Result>(file: string, write: () => Promise<Result>): Promise<Result> {
  try {
    return await write()
  } catch (cause) {
    throw new SpillwayError(`cannot write ${shownArgument(file)}: ${(cause as Error).message}`, { cause })
  }
}
