import { type Command, EXIT, type Option, readArguments, type Terminal, write } from '../arguments.js'
import { REDIS_HELP, REDIS_OPTIONS, readRedis, shownAddress } from '../redis-address.js'
import { WaitNotice } from '../redis-connection.js'
import { type Diagnosis, diagnosisAsJson, diagnosisAsText, hasProblem } from './diagnosis.js'
import { examine } from './examination.js'

const ANSWER_MS = 2000
const LONGEST_MS = 15_000
const NARROWEST = 60
const WIDEST = 140

const HELP = `Usage: spillway doctor --redis URL [options]

Finds Redis misconfigurations that affect limiters, and explains the fix: eviction, persistence, version, role, cluster slots,
latency, clocks, permissions, closed connections, keys without a lifetime. Changes nothing: it runs every script of a
limiter on its own key, which expires within seconds.

  spillway doctor --redis redis://127.0.0.1:6379
  REDIS_URL=rediss://user:password@redis.example:6380/2 spillway doctor --json

${REDIS_HELP}
  --prefix TEXT    the prefix of your RedisStore, default spillway
  --json           { redis, ok, findings: [{ subject, state, text, remedy, node }], tookMs }
  -h, --help

A state is ok, warning, problem, or unseen if the user has no permission for the check. In a cluster every primary is examined.
Takes at most ${LONGEST_MS / 1000} s, whatever the server does.
Exit codes: 0 no problem, 1 a problem, 2 invalid arguments, 130 Ctrl-C.
`

const OPTIONS: Record<string, Option> = {
  ...REDIS_OPTIONS,
  json: { example: '--json' },
  help: { example: '--help', short: 'h' },
}

export const doctorCommand: Command = {
  summary: 'finds Redis misconfigurations and explains the fix',
  help: HELP,

  async run(args, terminal, interrupted) {
    const given = readArguments(args, OPTIONS)
    if (given.has('help')) {
      await write(terminal.stdout, HELP)
      return EXIT.ok
    }
    const { address, prefix } = readRedis('doctor', given, terminal)

    const startedAt = performance.now()
    const redis = shownAddress(address)
    const notice = new WaitNotice(terminal, address)
    const end = AbortSignal.any([interrupted, AbortSignal.timeout(LONGEST_MS)])
    const findings = await examine(address, prefix, { answerMs: ANSWER_MS, interrupted: end }, () => notice.stop())
    const diagnosis: Diagnosis = { redis, findings, tookMs: performance.now() - startedAt }
    const json = given.has('json')
    await write(terminal.stdout, json ? diagnosisAsJson(diagnosis) : diagnosisAsText(diagnosis, columnsOf(terminal)))
    if (interrupted.aborted) return EXIT.interrupted
    return hasProblem(diagnosis) ? EXIT.fault : EXIT.ok
  },
}

function columnsOf({ stdout, env }: Terminal): number {
  return Math.min(Math.max(stdout.columns ?? (Number(env.COLUMNS) || 100), NARROWEST), WIDEST)
}
