import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Duration, parseOption } from '../../../limiter/core/duration.js'
import { PolicyError, shown } from '../../../limiter/core/errors.js'
import { checkInteger, checkOptions, type OptionNames } from '../../../limiter/core/options.js'
import type { RedisClient } from '../../../redis/client.js'
import { portOf } from '../../../redis/clients.js'
import { keyRoot } from '../../../redis/keys.js'

/**
 * The name and version in the nearest package.json above the program that runs, else above the folder it was started
 * in.
 */
function ownService(): { name: string; version: string } {
  const [, program] = process.argv
  const starts = [...(program === undefined ? [] : [dirname(program)]), process.cwd()]
  for (const start of starts) {
    for (let folder = start; ; folder = dirname(folder)) {
      const found = packageIn(folder)
      if (found !== undefined) return found
      if (dirname(folder) === folder) break
    }
  }
  return { name: 'service', version: '' }
}

function packageIn(folder: string): { name: string; version: string } | undefined {
  try {
    const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Record<string, unknown>
    return typeof name === 'string' ? { name, version: typeof version === 'string' ? version : '' } : undefined
  } catch {
    return undefined
  }
}

/** The part of `alerts(…)` of spillway/alerts that is reported. */
export interface FiringAlerts {
  /** What fires now. */
  readonly firing: ReadonlyArray<{
    readonly rule: { readonly name: string; readonly when: string; readonly over?: Duration }
    readonly subject: string
    readonly value: number
    readonly at: Date
  }>
}

/** Options of `reporter`. */
export interface ReporterOptions {
  /** A client of ioredis, iovalkey, node-redis or GLIDE, like `new Redis(url)`; it is never closed here. */
  client: RedisClient
  /** The beginning of all keys, as for the store; default 'spillway'. */
  prefix?: string
  /** How often it reports during activity; default '2s', at most 10 s. */
  every?: Duration
  /** Like 'shop'. Default: the name in the nearest package.json. */
  service?: string
  /** Like '1.4.2'. Default: the version in the nearest package.json. */
  version?: string
  /**
   * How many keys of each limiter are reported, the busiest and the most refused: integer from 0 (none) to 100; default
   * 20.
   */
  topKeys?: number
  /**
   * Limiter → what it counts, like { login: 'per user' }. Default: 'per address' if keys are addresses, else 'per key'.
   */
  keyNames?: Record<string, string>
  /**
   * The result of `alerts(…)` of spillway/alerts, an observer beside this one: what fires is shown as bands. Default:
   * its default rules, judged here.
   */
  alerts?: FiringAlerts
}

const OPTIONS: OptionNames<ReporterOptions> = {
  client: true,
  prefix: true,
  every: true,
  service: true,
  version: true,
  topKeys: true,
  keyNames: true,
  alerts: true,
}
const LONGEST_MS = 10_000
const MOST_KEYS = 100

/** The options, checked and with their defaults. Throws `PolicyError`. */
export function parseReporterOptions(options: ReporterOptions) {
  checkOptions('reporter', options, OPTIONS, '{ client }')
  const { client, prefix = 'spillway', every = '2s', topKeys = 20, keyNames = {}, alerts } = options
  keyRoot('reporter', 'dashboard', 'dashboard', prefix)
  portOf(client, 'reporter')
  const everyMs = parseOption(every, 'reporter: every')
  if (everyMs > LONGEST_MS) throw new PolicyError(`reporter: every ${shown(every)}: expected at most '10s', like '2s'`)
  checkInteger(topKeys, 'reporter: topKeys', 20, 0, MOST_KEYS)
  if (typeof keyNames !== 'object' || keyNames === null || !Object.values(keyNames).every(isText)) {
    throw new PolicyError(
      `reporter: keyNames ${shown(keyNames)}: expected texts by limiter, like { login: 'per user' }`,
    )
  }
  if (alerts !== undefined && !Array.isArray(alerts?.firing)) {
    throw new PolicyError(`reporter: alerts ${shown(alerts)}: expected what alerts({ … }) of spillway/alerts gives`)
  }
  for (const name of ['service', 'version'] as const) {
    if (options[name] !== undefined && !isText(options[name])) {
      throw new PolicyError(`reporter: ${name} ${shown(options[name])}: expected a text, like "api"`)
    }
  }
  const own = options.service === undefined || options.version === undefined ? ownService() : { name: '', version: '' }
  const { service = own.name, version = options.service === undefined ? own.version : '' } = options
  return { client, prefix, everyMs, topKeys, keyNames, alerts, service, version }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length <= 200
}
