import { randomBytes, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { SpillwayError } from '../../../limiter/core/errors.js'
import { handlerOf } from '../../dashboard/server/handler.js'
import { type Command, EXIT, type Option, shownArgument, UsageError, write } from '../arguments.js'
import { REDIS_HELP, REDIS_OPTIONS, readRedis, type SecureAddress, tlsOptionsOf } from '../redis-address.js'
import { waitForRedis } from '../redis-connection.js'

/** Like the middleware of a server: answers what it refuses, and lets the rest pass. */
type Listener = (req: IncomingMessage, res: ServerResponse) => void

/**
 * Admits only the first browser that opens the printed address. The token behind its `#` never reaches a server's log;
 * the page exchanges it for a session that it keeps in the storage of its origin. A cookie would not do: browsers send
 * it to every port of the machine, so also to servers of other users.
 */
class OneTimeLogin {
  readonly token = newSecret()
  #session: string | undefined

  /** Guards a dashboard: its page and files are for everybody, its data and changes for the session. */
  guard(dashboard: Listener): Listener {
    return (req, res) => {
      const { 'x-spillway-login': token, 'x-spillway-request': asked } = req.headers
      if (typeof token === 'string') this.#enter(token, res)
      else if (asked !== undefined && !this.#knows(req)) {
        const advice = 'Open the address that `spillway dashboard` has printed.'
        send(res, 401, `${advice} It works once: for another browser start the command again.`)
      } else dashboard(req, res)
    }
  }

  #enter(token: string, res: ServerResponse): void {
    if (this.#session !== undefined || !isSame(token, this.token)) {
      const reason = 'This address was used before, or is not the one that was printed.'
      send(res, 401, `${reason} Start \`spillway dashboard\` again.`)
    } else {
      this.#session = newSecret()
      send(res, 200, this.#session)
    }
  }

  #knows({ headers }: IncomingMessage): boolean {
    const session = headers['x-spillway-session']
    return typeof session === 'string' && this.#session !== undefined && isSame(session, this.#session)
  }
}

function send(res: ServerResponse, status: number, text: string): void {
  res.statusCode = status
  res.setHeader('content-type', 'text/plain; charset=utf-8')
  res.setHeader('cache-control', 'no-store')
  res.end(text)
}

function newSecret(): string {
  return randomBytes(24).toString('base64url')
}

function isSame(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}

/** A client that this command opened, and the function that closes it. */
interface OwnClient {
  readonly client: object
  close(): void
}

/** Opens a client. It connects in the background and again after an outage: the page tells of errors. */
type Connect = (address: SecureAddress, isCluster: boolean) => OwnClient

interface IoredisClient {
  on(event: 'error', listener: () => void): unknown
  disconnect(): void
}

interface IoredisModule {
  readonly Redis: new (options: object) => IoredisClient
  readonly Cluster: new (nodes: readonly object[], options: object) => IoredisClient
}

interface NodeRedisClient {
  on(event: 'error', listener: () => void): unknown
  connect(): Promise<unknown>
  destroy?(): void
  /** Before version 5. */
  disconnect?(): Promise<void>
}

interface NodeRedisModule {
  createClient(options: object): NodeRedisClient
  createCluster(options: object): NodeRedisClient
}

/** Modules are looked up in the current folder's project, then beside this package. */
const FROM = [join(process.cwd(), 'package.json'), process.argv[1] ?? '']

/**
 * The project's own ioredis or node-redis, because this package includes none. Throws `SpillwayError` if neither is
 * installed.
 */
function installedClient(): Connect {
  for (const from of FROM) {
    const ioredis = found<IoredisModule>('ioredis', from)
    if (ioredis !== undefined) return (address, isCluster) => openIoredis(ioredis, address, isCluster)
    const nodeRedis = found<NodeRedisModule>('redis', from)
    if (nodeRedis !== undefined) return (address, isCluster) => openNodeRedis(nodeRedis, address, isCluster)
  }
  throw new SpillwayError(
    'found neither ioredis nor redis (node-redis) in this folder: run it in the folder of your service, or run ' +
      'npm install ioredis first',
  )
}

function openIoredis({ Redis, Cluster }: IoredisModule, address: SecureAddress, isCluster: boolean): OwnClient {
  const { host, port, db, username, password } = address
  const options = { username, password, tls: tlsOptionsOf(address), maxRetriesPerRequest: 1 }
  const client = isCluster
    ? new Cluster([{ host, port }], { redisOptions: options })
    : new Redis({ host, port, db, ...options })
  client.on('error', () => {})
  return { client, close: () => client.disconnect() }
}

function openNodeRedis(module: NodeRedisModule, address: SecureAddress, isCluster: boolean): OwnClient {
  const { host, port, db, username, password } = address
  const tls = tlsOptionsOf(address)
  const login = { username, password }
  const socket = tls === undefined ? {} : { tls: true, ...tls }
  const at = { host, port, ...socket }
  const client = isCluster
    ? module.createCluster({ rootNodes: [{ socket: at }], defaults: { ...login, socket } })
    : module.createClient({ ...login, socket: at, database: db })
  client.on('error', () => {})
  // Not awaited: it is pending for as long as Redis is away.
  client.connect().catch(() => {})
  return {
    client,
    close: () => (client.destroy === undefined ? client.disconnect?.().catch(() => {}) : client.destroy()),
  }
}

function found<Module>(name: string, from: string): Module | undefined {
  try {
    return createRequire(from)(name) as Module
  } catch {
    return undefined
  }
}

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
}

export const dashboardCommand: Command = {
  summary: 'shows in a browser which keys are limited, by which limits, and why',
  help: HELP,
  options: OPTIONS,

  async run(given, terminal, interrupted) {
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
    `--port: given ${shownArgument(given)}, expected a port from 0 to 65535, like ${OPTIONS.port.example}`,
  )
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    return 'the command'
  }
}
