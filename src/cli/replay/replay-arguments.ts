import { parsePolicy } from '../../core/limit.js'
import { IPV6_SUBNET } from '../../http/address/masked-address.js'
import { type Option, readArguments, UsageError } from '../arguments.js'
import { shownGiven } from '../shown-given.js'
import type { ReplayOptions } from './replay.js'
import { SUBJECTS, type Subject } from './subject-name.js'

export const EXAMPLE = "spillway replay access.log --policy '10/1m' --by ip"
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
  help: { example: '--help', short: 'h' },
}

interface ReplayArguments extends ReplayOptions {
  /** `-` is the standard input. */
  readonly file: string
  readonly json: boolean
  /** Where the page goes. */
  readonly html: string | undefined
}

/** undefined: help was asked for. Throws `UsageError`, or `PolicyError` for a policy that is none. */
export function readReplayArguments(args: readonly string[]): ReplayArguments | undefined {
  const found = readArguments(args, OPTIONS)
  if (found.has('help')) return undefined
  const [file, ...others] = found.positionals
  if (file === undefined || file === '')
    throw new UsageError(`given no FILE, expected an access log or - for standard input, like: ${EXAMPLE}`)
  if (others.length > 0) {
    throw new UsageError(
      `given ${others.length + 1} files, expected one, like: cat access.log.1 access.log | spillway replay - --policy '10/1m'`,
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
  return new UsageError(`--${option}: given ${shownGiven(given)}, expected ${value}, like ${example}`)
}
