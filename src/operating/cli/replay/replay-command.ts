import { IPV6_SUBNET } from '../../../http/address/address.js'
import { monotonicClock } from '../../../limiter/core/clock.js'
import { ALGORITHM_NAMES, parsePolicy } from '../../../limiter/core/limit.js'
import {
  type Arguments,
  type Command,
  columnsOf,
  EXIT,
  type Option,
  shownArgument,
  type Terminal,
  UsageError,
  write,
} from '../arguments.js'
import { SUBJECTS, type Subject } from './access-log.js'
import { LineCutter, LogError, type LogSource, openLog, Progress } from './log-source.js'
import { TooManyKeysError } from './ranking.js'
import { Replay, type ReplayOptions } from './replay.js'
import type { Report } from './report.js'
import { checkPageFile, reportAsHtml, reportAsJson, writePage } from './report-files.js'
import { reportAsText, unreadable } from './report-text.js'

const EXAMPLE = "spillway replay access.log --policy '10/1m' --by ip"
const TOP = 10
/** A page names more keys, where there are more. */
const MOST_ON_PAGE = 50

const OPTIONS: Record<string, Option> = {
  policy: { value: 'a policy', example: "--policy '10/1m'", repeated: true },
  by: { value: `one of ${SUBJECTS.join(', ')}`, example: '--by ip' },
  top: { value: 'a whole number, 0 or more', example: '--top 20' },
  'ipv6-subnet': { value: 'the bits of a network, 1 to 128, or "false"', example: '--ipv6-subnet 64' },
  json: { example: '--json' },
  html: { value: 'a file to write', example: '--html report.html' },
}

interface ReplayArguments extends ReplayOptions {
  /** `-` is the standard input. */
  readonly file: string
  readonly json: boolean
  /** Where the page goes. */
  readonly html: string | undefined
}

/** Throws `UsageError`, or `PolicyError` for a policy that is none. */
export function readReplayArguments(found: Arguments): ReplayArguments {
  const [file, ...others] = found.positionals
  if (file === undefined || file === '')
    throw new UsageError(`given no FILE, expected an access log or - for standard input, like: ${EXAMPLE}`)
  if (others.length > 0) {
    throw new UsageError(
      `given ${others.length + 1} files, expected one, like: cat access.log.1 access.log | spillway replay - ` +
        "--policy '10/1m'",
    )
  }
  const policies = found.values('policy').map(text => ({ text, policy: parsePolicy(text) }))
  if (policies.length === 0) throw new UsageError(`given no --policy, expected at least one, like: ${EXAMPLE}`)
  return {
    file,
    policies,
    by: subjectOf(found.values('by')[0]),
    top: topOf(found.values('top')[0]),
    ipv6Subnet: subnetOf(found.values('ipv6-subnet')[0]),
    json: found.has('json'),
    html: htmlOf(found.values('html')[0]),
    details: found.has('html') ? MOST_ON_PAGE : undefined,
  }
}

function subjectOf(text = 'ip'): Subject {
  if (SUBJECTS.includes(text as Subject)) return text as Subject
  throw wrong('by', text)
}

function htmlOf(file: string | undefined): string | undefined {
  if (file === '' || file === '-') throw wrong('html', file)
  return file
}

function topOf(text = `${TOP}`): number {
  const top = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (Number.isSafeInteger(top)) return top
  throw wrong('top', text)
}

function subnetOf(text = `${IPV6_SUBNET}`): number | false {
  if (text === 'false') return false
  const bits = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (bits >= 1 && bits <= 128) return bits
  throw wrong('ipv6-subnet', text)
}

function wrong(option: string, given: string): UsageError {
  const { value, example } = OPTIONS[option]
  return new UsageError(`--${option}: given ${shownArgument(given)}, expected ${value}, like ${example}`)
}

/** Apache writes 8190 bytes each of request line, referer and agent, four bytes for one where it escapes. */
const LONGEST_LINE_BYTES = 128 * 1024

const HELP = `Usage: spillway replay FILE --policy POLICY [--policy POLICY ...] [options]

Sends the requests of an access log through a rate limiter, each at its own time, and reports which requests of which keys
would have been refused. One run can compare several policies.

  ${EXAMPLE}
  zcat -f access.log* | spillway replay - --policy '100/1m' --policy '100/1m token-bucket burst=20' --by path

FILE is an access log in common or combined format (Apache, nginx, morgan), also with a virtual host before the client
(vhost_combined), as text or gzip; - is the standard input.

  --policy POLICY      '10/1m', '10/1m token-bucket burst=5', several limits in one: '10/1s;100/1m' (ms, s, m, h, d)
                       algorithms: ${ALGORITHM_NAMES.join(', ')}
  --by SUBJECT         ip (default): the client's address, IPv6 by subnet, as the middleware does
                       path: without the query; method; user: the authenticated name; agent
                       A request without such a value (no user: "-") is not limited and counts as allowed.
                       A value longer than 200 characters is counted by its hash and shown by its first 160 characters:
                       memory depends on the number of different keys (about 1 kB each), not on their length.
  --ipv6-subnet BITS   for --by ip: 1 to 128, default 56; false takes whole addresses
  --top N              name N keys, default 10
  --json               one JSON object; a list of them for several policies
  --html FILE          also writes the report as one page with charts, which opens from disk without other files. Needs about
                       30 more bytes of memory for each key and moment
  -h, --help

Times in logs are whole seconds, so all requests of one second are replayed at one instant. Servers write a line when a request
ends, but with the time at which it began, so lines may be out of order: up to 1,048,576 lines are sorted as a whole, in longer
logs each is sorted among the 524,288 lines around it. The replay assumes that refusals would not have changed when clients come.

Ctrl-C ends the reading and prints the report so far.
Exit codes: 0 done, 1 the log cannot be read or holds no request, 2 invalid arguments, 130 Ctrl-C.
`

export const replayCommand: Command = {
  summary: 'computes from an access log what a policy would have refused',
  help: HELP,
  options: OPTIONS,

  async run(found, terminal, interrupted) {
    const given = readReplayArguments(found)
    const log = await openLog(given.file, terminal.stdin)
    try {
      if (given.html !== undefined) await checkPageFile(given.html, given.file)
    } catch (error) {
      log.stream.destroy()
      throw error
    }
    const replay = new Replay(given)
    const fault = await readAll(log, replay, terminal, interrupted)
    const report = replay.finish({ complete: fault === undefined && !interrupted.aborted })
    if (report.complete && report.requests === 0 && report.skipped.lines > 0) {
      throw new LogError(unreadable(report, shownArgument(log.name)))
    }
    // After a fault, the report of the lines read before comes first; the error message comes last, where it is
    // visible.
    if (fault === undefined || replay.lines > 0) {
      if (given.html !== undefined) await writePage(given.html, reportAsHtml(report, log.name))
      await write(terminal.stdout, given.json ? reportAsJson(report) : textFor(report, log.name, terminal))
    }
    if (fault !== undefined) throw fault
    if (interrupted.aborted) return EXIT.interrupted
    return report.requests === 0 ? EXIT.fault : EXIT.ok
  },
}

/** Reads to the end of the log, to Ctrl-C, or to a fault, which is returned. */
async function readAll(
  log: LogSource,
  replay: Replay,
  terminal: Terminal,
  interrupted: AbortSignal,
): Promise<LogError | TooManyKeysError | undefined> {
  const cutter = new LineCutter(replay, LONGEST_LINE_BYTES)
  const progress = new Progress(terminal.stderr, log.totalBytes, monotonicClock, knowsUnicode(terminal))
  try {
    for await (const block of log.blocks(interrupted)) {
      cutter.push(block)
      progress.update(log.bytesRead, replay.lines)
    }
    cutter.end()
  } catch (error) {
    if (error instanceof LogError || error instanceof TooManyKeysError) return error
    if (!interrupted.aborted) throw error
  } finally {
    progress.clear()
  }
  return undefined
}

function textFor(report: Report, name: string, terminal: Terminal): string {
  return reportAsText(report, { log: name, columns: columnsOf(terminal, 80, 200), unicode: knowsUnicode(terminal) })
}

function knowsUnicode({ env }: Terminal): boolean {
  return process.platform === 'win32' || /utf-?8/i.test(env.LC_ALL || env.LC_CTYPE || env.LANG || '')
}
