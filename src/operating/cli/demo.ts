import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Decision } from '../../limiter/core/decision.js'
import { SpillwayError } from '../../limiter/core/errors.js'
import { MemoryStore } from '../../limiter/memory/memory-store.js'
import { RateLimiter } from '../../limiter/rate-limiter.js'
import { connectionOf } from '../../redis/clients.js'
import { RedisStore } from '../../redis/store/redis-store.js'
import { type Command, EXIT, shownArgument, type Terminal, UsageError, write } from './arguments.js'
import { hostAndPort, REDIS_OPTIONS, readRedis, type SecureAddress } from './redis-address.js'
import { Connection, waitForRedis } from './redis-connection.js'
import { table } from './table.js'

const HELP = `Usage: spillway demo [options]

Shows in a few seconds what a limit of five a second does: a burst, beside a fixed window that lets nine pass; when refused
requests may come back, and that they may; and who decides while Redis hangs for two seconds. For the last part it uses the
Redis that you give, else it starts redis-server or valkey-server for itself if one is installed. It pauses its own connection,
not the server, and leaves nothing there.

  spillway demo
  spillway demo --redis redis://127.0.0.1:6379

  --redis URL      redis: or rediss: (TLS), with user, password and database if needed; no cluster
  --cacert FILE, --cert FILE, --key FILE
                   as of spillway doctor
  -h, --help

Exit codes: 1 Redis cannot be used, 2 invalid arguments, 130 Ctrl-C.
`

const { prefix: _, ...OPTIONS } = REDIS_OPTIONS

export const demoCommand: Command = {
  summary: 'shows in a few seconds what a limit does, also while Redis hangs',
  help: HELP,
  options: OPTIONS,

  async run(given, terminal, interrupted) {
    if (given.positionals.length > 0) {
      throw new UsageError(`given ${shownArgument(given.positionals[0])}, expected options only, like: spillway demo`)
    }
    // Read first: a wrong URL is told before anything is shown.
    const address = given.has('redis') ? readRedis('demo', given, terminal).address : undefined
    const screen = new Screen(terminal, interrupted)
    try {
      const refusal = await showBurst(screen)
      await showReturn(screen, refusal)
      await showOutage(screen, address)
      await screen.say(`
In your service:

  npm install spillway
  import { rateLimit } from 'spillway/express'   ${screen.dim('// or koa, fastify, hono, h3, node, fetch')}
  app.use(rateLimit({ policy: '100/1m' }))
`)
      return EXIT.ok
    } catch (error) {
      if (!interrupted.aborted) throw error
      return EXIT.interrupted
    }
  },
}

/** The terminal, in colours where it has them. */
class Screen {
  readonly #colours: boolean

  constructor(
    readonly terminal: Terminal,
    readonly interrupted: AbortSignal,
  ) {
    const { stdout, env } = terminal
    this.#colours = stdout.isTTY === true && stdout.hasColors(env as object)
  }

  say(text: string): Promise<void> {
    return write(this.terminal.stdout, `${text}\n`)
  }

  /** Rejects when the demo is interrupted. */
  wait(ms: number): Promise<void> {
    return sleep(Math.max(0, ms), undefined, { signal: this.interrupted })
  }

  bold = (text: string) => this.#paint(1, text)
  dim = (text: string) => this.#paint(2, text)
  red = (text: string) => this.#paint(31, text)
  green = (text: string) => this.#paint(32, text)

  #paint(code: number, text: string): string {
    return this.#colours ? `\u001b[${code}m${text}\u001b[0m` : text
  }
}

const LIMIT = '5/1s'
/** When requests come, in ms after the first: four just before a second has passed, six just after. */
const BURST = [860, 890, 920, 950, 1010, 1040, 1070, 1100, 1130, 1160]

/** Plays moments at their real speed, and tells the limits exactly these: so the demo is the same on a busy machine. */
class Timeline {
  #at = 0
  readonly #startedAt = performance.now()
  readonly clock = { now: () => 1_800_000_000_000 + this.#at }

  constructor(readonly screen: Screen) {}

  async reach(at: number): Promise<string> {
    await this.screen.wait(this.#startedAt + at - performance.now())
    this.#at = at
    return `${(at / 1000).toFixed(2)} s`
  }
}

interface Refusal {
  readonly limiter: RateLimiter
  readonly timeline: Timeline
  readonly at: number
  readonly retryAfterMs: number
}

async function showBurst(screen: Screen): Promise<Refusal> {
  await screen.say(`${screen.bold(`A limit of ${LIMIT}: at most five in any second`)}
One request, then ten in 0.3 s. A fixed window counts anew when its second is over; spillway's default counts any second.

            fixed window   spillway`)
  const timeline = new Timeline(screen)
  const limiterOf = (policy: string) => new RateLimiter({ policy, store: new MemoryStore({ clock: timeline.clock }) })
  const [fixed, limiter] = [limiterOf(`${LIMIT} fixed-window`), limiterOf(LIMIT)]
  const verdict = ({ allowed }: Decision) => (allowed ? screen.green('passed ') : screen.red('refused'))
  const passed = { fixed: 0, sliding: 0 }
  let retryAfterMs = 0
  for (const at of [0, ...BURST]) {
    const time = await timeline.reach(at)
    const [ofFixed, ofSliding] = [await fixed.consume('ann'), await limiter.consume('ann')]
    await screen.say(`  ${screen.dim(time)}    ${verdict(ofFixed)}        ${verdict(ofSliding)}`)
    if (at > 0 && ofFixed.allowed) passed.fixed++
    if (at > 0 && ofSliding.allowed) passed.sliding++
    retryAfterMs = ofSliding.retryAfterMs
  }
  await screen.say(`
Of the ten, the fixed window lets ${screen.bold(String(passed.fixed))} pass within 0.3 s, and spillway ${screen.bold(String(passed.sliding))}.\n`)
  return { limiter, timeline, at: BURST[BURST.length - 1], retryAfterMs }
}

async function showReturn(screen: Screen, { limiter, timeline, at, retryAfterMs }: Refusal): Promise<void> {
  await screen.say(`${screen.bold('Who is refused is told when to come back, and then passes')}
The last one was told ${retryAfterMs} ms (429, Retry-After: ${Math.ceil(retryAfterMs / 1000)}).\n`)
  for (const [share, note] of [
    [0.5, 'half-way: too early, and it costs nothing'],
    [1, 'at the promised moment'],
  ] as const) {
    const time = await timeline.reach(at + retryAfterMs * share)
    const { allowed } = await limiter.consume('ann')
    const verdict = allowed ? screen.green('passed ') : screen.red('refused')
    await screen.say(`  ${screen.dim(time)}    ${verdict}   ${note}`)
  }
  await screen.say('')
}

/** A Redis for the last part, and what is said of it. */
interface OwnRedis {
  readonly address: SecureAddress
  readonly words: string
  stop(): void
}

/** A given Redis that is away for longer is said to be so. */
const WAIT_MS = 2000
const PAUSE_MS = 2000
const STEP_MS = 20
const ROW_MS = 500

async function showOutage(screen: Screen, given: SecureAddress | undefined): Promise<void> {
  const title = screen.bold('While Redis hangs, requests are answered in time')
  const redis =
    given === undefined
      ? await startRedis()
      : { address: given, words: `Redis at ${hostAndPort(given.host, given.port)}`, stop: () => {} }
  if (redis === undefined) {
    return screen.say(`${title}\nTo see it: spillway demo --redis redis://127.0.0.1:6379, or install redis-server.`)
  }
  try {
    const inTime = AbortSignal.any([screen.interrupted, AbortSignal.timeout(WAIT_MS)])
    const found = await waitForRedis(redis.address, screen.terminal, inTime)
    if (screen.interrupted.aborted) throw screen.interrupted.reason
    if (found === undefined) {
      const { host, port } = redis.address
      throw new SpillwayError(
        `Redis at ${hostAndPort(host, port)} cannot be used: see whether it runs, and its address`,
      )
    }
    if (found.isCluster) throw new SpillwayError('--redis: given a cluster, expected a single server')
    const connection = await Connection.open(redis.address, { answerMs: 10_000, interrupted: screen.interrupted })
    try {
      await screen.say(
        `${title}\n${redis.words}. A request each ${STEP_MS} ms, under 10/1s; from 0.5 s on the connection is ` +
          'paused for two seconds.\n',
      )
      await playOutage(screen, connection)
    } finally {
      connection.close()
    }
  } finally {
    redis.stop()
  }
}

async function playOutage(screen: Screen, connection: Connection): Promise<void> {
  const store = new RedisStore(connectionOf(connection.client(false), 'demo'), { prefix: 'spillway-demo' })
  // With an observer, the outage is not printed as a warning.
  const limiter = new RateLimiter({ name: 'demo', policy: '10/1s', store, observer: {}, denyCache: false })
  const made: Array<{ readonly at: number; readonly tookMs: number; readonly source: string }> = []
  const startedAt = performance.now()
  const asked: Array<Promise<void>> = []
  const decide = async (at: number) => {
    const began = performance.now()
    const { source } = await limiter.consume('ann')
    made.push({ at, tookMs: performance.now() - began, source })
  }
  // The first decision loads the script.
  await limiter.consume('ann')
  for (let at = 0; at < ROW_MS + PAUSE_MS + 1000; at += STEP_MS) {
    await screen.wait(startedAt + at - performance.now())
    if (at === ROW_MS) connection.socket.pause()
    if (at === ROW_MS + PAUSE_MS) connection.socket.resume()
    asked.push(decide(at))
  }
  await Promise.all(asked)
  await limiter.reset('ann')
  limiter.close()
  await store.close()
  const rows = [['', 'Redis', 'decided by', 'requests', 'longest']]
  for (let from = 0; from < ROW_MS + PAUSE_MS + 1000; from += ROW_MS) {
    const these = made.filter(({ at }) => at >= from && at < from + ROW_MS)
    const sources = new Set(these.map(({ source }) => (source === 'fallback' ? 'this process' : source)))
    rows.push([
      `  ${(from / 1000).toFixed(1)} s`,
      from >= ROW_MS && from < ROW_MS + PAUSE_MS ? 'paused' : 'answers',
      [...sources].join(', '),
      String(these.length),
      `${Math.max(...these.map(({ tookMs }) => tookMs)).toFixed(1)} ms`,
    ])
  }
  await screen.say(table(rows, ['left', 'left', 'left', 'right', 'right']).join('\n'))
  await screen.say(`
A decision takes at most its deadline, 50 ms, and as long as this process itself is late; after some of them nobody
waits for Redis any more. Meanwhile each process keeps the limit by itself.`)
}

/**
 * Until the server that was just started accepts connections, or for two seconds: then the command that connects says
 * what is wrong.
 */
async function accepting(port: number): Promise<void> {
  for (const endsAt = performance.now() + 2000; performance.now() < endsAt; await sleep(20)) {
    const socket = connect(port, '127.0.0.1')
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    if (isOpen) return
  }
}

/** A folder of its own; undefined where none can be made. */
function ownFolder(): string | undefined {
  try {
    return mkdtempSync(join(tmpdir(), 'spillway-demo-'))
  } catch {
    return undefined
  }
}

/** A server of its own, which keeps nothing, on a free port; undefined if none is installed, or has no folder. */
async function startRedis(): Promise<OwnRedis | undefined> {
  const folder = ownFolder()
  if (folder === undefined) return undefined
  const port = await freePort()
  const options = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', folder]
  for (const program of ['redis-server', 'valkey-server']) {
    const server: ChildProcess = spawn(program, options, { stdio: 'ignore' })
    // Without the program there is an 'error' in place of 'spawn'.
    const isThere = await once(server, 'spawn').then(
      () => true,
      () => false,
    )
    if (!isThere) continue
    const remove = () => {
      server.kill('SIGKILL')
      rmSync(folder, { recursive: true, force: true })
    }
    // Also if this process ends otherwise.
    const end = (signal: NodeJS.Signals) => {
      remove()
      process.kill(process.pid, signal)
    }
    process.once('exit', remove).once('SIGTERM', end).once('SIGHUP', end)
    await accepting(port)
    return {
      address: {
        host: '127.0.0.1',
        port,
        tls: false,
        db: 0,
        username: undefined,
        password: undefined,
        certificates: {},
      },
      words: `A ${program} of its own`,
      stop() {
        remove()
        process.off('exit', remove).off('SIGTERM', end).off('SIGHUP', end)
      },
    }
  }
  rmSync(folder, { recursive: true, force: true })
  return undefined
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  return port
}
