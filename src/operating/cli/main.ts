#!/usr/bin/env node
import { realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { PolicyError, SpillwayError } from '../../limiter/core/errors.js'
import { printable } from '../../limiter/core/printable.js'
import { type Command, EXIT, runCommand, shownArgument, UsageError, write } from './arguments.js'
import { dashboardCommand } from './dashboard/dashboard-command.js'
import { demoCommand } from './demo.js'
import { doctorCommand } from './doctor/doctor-command.js'
import { migrateCommand } from './migrate/migrate-command.js'
import { replayCommand } from './replay/replay-command.js'
import { sqlCommand } from './sql-command.js'

const COMMANDS: Readonly<Record<string, Command>> = {
  replay: replayCommand,
  doctor: doctorCommand,
  dashboard: dashboardCommand,
  sql: sqlCommand,
  migrate: migrateCommand,
  demo: demoCommand,
}

const HELP = `Usage: spillway COMMAND [options]

${Object.entries(COMMANDS)
  .map(([name, { summary }]) => `  ${name.padEnd(10)}${summary}`)
  .join('\n')}

spillway COMMAND --help explains a command; spillway --version prints the version.
`

async function main(args: readonly string[]): Promise<number> {
  const [name, ...rest] = args
  if (name === '--help' || name === '-h') return told('spillway', () => print(HELP))
  if (name === '--version') return told('spillway', () => print(`${version()}\n`))
  const command = name !== undefined && Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (command) return run(name, command, rest)
  const given = name === undefined ? 'given no command' : `unknown command ${shownArgument(name)}`
  return complain(
    'spillway',
    `${given}, expected ${Object.keys(COMMANDS).join(', ')}, --help or --version, like: spillway --help`,
    EXIT.usage,
  )
}

function run(name: string, command: Command, args: readonly string[]): Promise<number> {
  const interrupted = new AbortController()
  // Once: a second Ctrl-C has its normal effect.
  process.once('SIGINT', () => interrupted.abort())
  return told(`spillway ${name}`, () => runCommand(command, args, process, interrupted.signal))
}

/** The exit code of what is done; a fault is told in one line. */
async function told(who: string, act: () => Promise<number>): Promise<number> {
  try {
    return await act()
  } catch (error) {
    const isUsage = error instanceof UsageError || error instanceof PolicyError
    if (error instanceof SpillwayError) return complain(who, error.message, isUsage ? EXIT.usage : EXIT.fault)
    throw error
  }
}

async function print(text: string): Promise<number> {
  await write(process.stdout, text)
  return EXIT.ok
}

async function complain(who: string, message: string, exitCode: number): Promise<number> {
  await write(process.stderr, `${who}: ${printable(message)}\n`)
  return exitCode
}

// Resolved from the real path, because npm starts the command through a link. dist/ is beside package.json.
function version(): string {
  return createRequire(realpathSync(process.argv[1]))('../package.json').version
}

// Each write reports its own failure; without these listeners the events would end the process with a stack trace.
for (const output of [process.stdout, process.stderr]) output.on('error', () => {})

main(process.argv.slice(2)).then(
  // All is written. A client of Redis that is closed while it connects may leave a connection open, which must not keep
  // the command.
  exitCode => process.exit(exitCode),
  (error: NodeJS.ErrnoException) => {
    // A reader that closes the pipe early (`| head`) is not a fault.
    if (error.code === 'EPIPE') process.exit(EXIT.ok)
    throw error
  },
)
