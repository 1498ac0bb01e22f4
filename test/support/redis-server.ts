import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis, type RedisOptions } from 'ioredis'
import { freePort } from './free-port.js'
import { startRedis } from './redis-process.js'
import { PortTakenError, type ServerProcess } from './server-process.js'

export interface RedisServerOptions {
  /** Added to the command line, where the last word wins: `['--appendonly', 'yes']`. */
  readonly args?: readonly string[]
  /** Lines of a configuration file, for what a command line cannot say. */
  readonly config?: (port: number) => string
  /** Added to the environment of the server. */
  readonly env?: Readonly<Record<string, string>>
}

/**
 * A real Redis on a port and in a folder of its own, for one test file. Nothing is saved unless `args` say so. Ends
 * with the process that started it, however that ends.
 */
export class RedisServer {
  readonly host = '127.0.0.1'
  readonly #options: RedisServerOptions
  readonly #clients = new Set<Disconnectable>()
  #port = 0
  #dir = ''
  #args: readonly string[] = []
  #process!: ServerProcess
  #admin: Redis | undefined

  constructor(options: RedisServerOptions = {}) {
    this.#options = options
  }

  static async start(options?: RedisServerOptions): Promise<RedisServer> {
    const server = new RedisServer(options)
    await server.start()
    return server
  }

  /** Once, before anything else; again after `kill`: `restart`. */
  async start(): Promise<void> {
    const { args = [], config, env } = this.#options
    this.#dir = await mkdtemp(join(tmpdir(), 'spillway-redis-'))
    for (let tries = 0; ; tries++) {
      const port = await freePort()
      const own = config ? [await configure(this.#dir, config(port))] : [...DEFAULTS, ...at(port, this.#dir)]
      try {
        this.#args = [...own, ...args]
        this.#process = await startRedis(this.#args, this.#dir, env)
        this.#port = port
        return
      } catch (error) {
        if (error instanceof PortTakenError && tries < 20) continue
        await rm(this.#dir, { recursive: true, force: true })
        throw error
      }
    }
  }

  get port(): number {
    return this.#port
  }

  get dir(): string {
    return this.#dir
  }

  get url(): string {
    return `redis://${this.host}:${this.port}`
  }

  /** Changes with every restart. */
  get pid(): number {
    return this.#process.pid
  }

  /** The end of what the server said, for the message of a test that fails. */
  get log(): string {
    return this.#process.log
  }

  /**
   * A client of this server, disconnected when the server is stopped. Its connection errors are expected here, so not
   * printed.
   */
  client(options: RedisOptions = {}): Redis {
    return this.track(new Redis({ host: this.host, port: this.port, disconnectTimeout: END_MS, ...options }))
  }

  /** A client for traffic in bulk: sends what is written in one turn of the event loop with one system call. */
  bulkClient(): Redis {
    const client = this.client()
    client.on('connect', () => {
      const { stream } = client
      const write = stream.write.bind(stream) as typeof stream.write
      let corked = false
      stream.write = ((...args: Parameters<typeof write>) => {
        if (!corked) {
          corked = true
          stream.cork()
          setImmediate(() => {
            corked = false
            stream.uncork()
          })
        }
        return write(...args)
      }) as typeof write
    })
    return client
  }

  /** The number of clients in a blocking command, like a sleeping consumer. */
  async blockedClients(): Promise<number> {
    this.#admin ??= this.client()
    return Number(/blocked_clients:(\d+)/.exec(await this.#admin.info('clients'))?.[1])
  }

  /** Any other client that shall be disconnected when the server is stopped. */
  track<Client extends Disconnectable>(client: Client): Client {
    client.on('error', () => {})
    this.#clients.add(client)
    return client
  }

  /** Stops the process (SIGSTOP): connections stay open without answers. */
  pause(): void {
    this.#process.signal('SIGSTOP')
  }

  unpause(): void {
    this.#process.signal('SIGCONT')
  }

  /** SIGKILL, as a crash would be: connections are reset, later ones refused. The port and the folder stay ours. */
  async kill(): Promise<void> {
    await this.#process.kill()
  }

  /** Starts again on the same port and folder, after `kill` or by killing first. */
  async restart(): Promise<void> {
    await this.kill()
    for (let tries = 0; ; tries++) {
      try {
        this.#process = await startRedis(this.#args, this.dir, this.#options.env)
        return
      } catch (error) {
        if (!(error instanceof PortTakenError) || tries >= 50) throw error
        await new Promise(resolve => setTimeout(resolve, 20))
      }
    }
  }

  /** Disconnects every client, ends the server and removes its folder. */
  async stop(): Promise<void> {
    for (const client of this.#clients) client.disconnect()
    this.#clients.clear()
    await this.kill()
    await rm(this.dir, { recursive: true, force: true })
  }
}

/** What every ioredis client, of any version, single or cluster, can do. */
export interface Disconnectable {
  disconnect(): void
  on(event: 'error', listener: (error: Error) => void): unknown
}

/**
 * How long a client that was told to disconnect waits for the other end to agree. By itself it would be two seconds,
 * also where the connection has closed already, and for so long a timer would hold the finished test run.
 */
export const END_MS = 50

const DEFAULTS = ['--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--repl-diskless-sync-delay', '0']

function at(port: number, dir: string): string[] {
  return ['--port', String(port), '--dir', dir]
}

async function configure(dir: string, text: string): Promise<string> {
  const file = join(dir, 'redis.conf')
  await writeFile(file, `dir ${dir}\n${text}\n`)
  return file
}
