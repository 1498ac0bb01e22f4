import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { userInfo } from 'node:os'
import { SpillwayError } from '../../core/errors.js'
import { handlerOf } from '../../dashboard/server/handler.js'
import { type Option, readArguments, UsageError } from '../arguments.js'
import { type Command, EXIT, write } from '../command.js'
import { REDIS_HELP, REDIS_OPTIONS, readRedis } from '../redis-address.js'
import { shownGiven } from '../shown-given.js'
import { waitForRedis } from '../wait-notice.js'
import { OneTimeLogin } from './one-time-login.js'
import { installedClient } from './redis-client.js'

const HELP = `Usage: spillway dashboard --redis URL [options]

Shows in a browser who is limited, by which limit and why. The data come from the reports of processes (reporter of spillway/dashboard) and from Redis.
Listens on 127.0.0.1 only. The printed address works once, for the browser that opens it first.

  spillway dashboard --redis redis://127.0.0.1:6379
  REDIS_URL=rediss://user:password@redis.example:6380/2 spillway dashboard --write

${REDIS_HELP}
  --prefix TEXT    the prefix of your stores and reporters, default spillway
  --port N         default: a free port
  --write          allow changes: limits, blocks, resets, rates, leases, queues. The history records them with your user name
  -h, --help

Needs ioredis or redis (node-redis) in the current folder. Waits until Redis can be reached. Ctrl-C ends it.
Exit codes: 1 it could not start, 2 invalid arguments, 130 Ctrl-C.
`

const OPTIONS: Record<string, Option> = {
  ...REDIS_OPTIONS,
  port: { value: 'a port', example: '--port 4400' },
  write: { example: '--write' },
  help: { example: '--help', short: 'h' },
}

export const dashboardCommand: Command = {
  summary: 'shows in a browser which keys are limited, by which limits, and why',
  help: HELP,

  async run(args, terminal, interrupted) {
    const given = readArguments(args, OPTIONS)
    if (given.has('help')) {
      await write(terminal.stdout, HELP)
      return EXIT.ok
    }
    const { address, prefix } = readRedis('dashboard', given, terminal)
    const port = portOf(given.values('port')[0])
    const connect = installedClient()
    const redis = await waitForRedis(address, terminal, interrupted)
    if (redis === undefined) return EXIT.interrupted
    const own = connect(address, redis.isCluster)
    const login = new OneTimeLogin()
    const access = given.has('write') ? { access: 'write' as const, user: userName() } : ('read' as const)
    const handler = handlerOf(
      { client: own.client, prefix, authorize: () => access },
      given.has('write') ? 'redis' : undefined,
    )
    const server = createServer(login.guard(handler))
    try {
      const at = await listening(server, port)
      const may = given.has('write')
        ? 'It can change limits and other things.'
        : 'It is read-only: --write allows changes.'
      await write(
        terminal.stdout,
        `http://127.0.0.1:${at}/#login=${login.token}\n\nOpen this address: it works once. ${may} Ctrl-C ends it.\n`,
      )
      if (!interrupted.aborted) await once(interrupted, 'abort')
      return EXIT.interrupted
    } finally {
      server.close()
      server.closeAllConnections()
      own.close()
    }
  },
}

async function listening(server: Server, port: number): Promise<number> {
  server.listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
  } catch (error) {
    throw new SpillwayError(`cannot listen on port ${port}: ${(error as Error).message}: choose another with --port`, {
      cause: error,
    })
  }
  return (server.address() as AddressInfo).port
}

function portOf(given: string | undefined): number {
  if (given === undefined) return 0
  const port = Number(given)
  if (/^\d{1,5}$/.test(given) && port <= 65_535) return port
  throw new UsageError(
    `--port: given ${shownGiven(given)}, expected a port from 0 to 65535, like ${OPTIONS.port.example}`,
  )
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    return 'the command'
  }
}
