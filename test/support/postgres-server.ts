import { execFile, execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { chmod, chown, mkdtemp, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { Pool, type PoolConfig } from 'pg'
import { freePort } from './free-port.js'
import { PortTakenError, ServerProcess } from './server-process.js'

const run = promisify(execFile)

export interface PostgresServerOptions {
  /** Written to the disk before a commit is answered, as in production. Default: false, which is quicker. */
  readonly durable?: boolean
  /** Settings of postgresql.conf: `{ max_connections: 20 }`. */
  readonly settings?: Readonly<Record<string, string | number>>
  /** It follows this server, and only reads. It needs as many connections. */
  readonly standbyOf?: PostgresServer
}

/** The superuser of every server here. It needs no password, and owns the database 'postgres'. */
export const ADMIN = 'spillway'

/**
 * A real PostgreSQL on a port and in a folder of its own, for tests that stop or break it; others share one, by
 * `testPostgres`. Runs as a user without rights, as PostgreSQL demands. Ends with the process that started it, however
 * that ends.
 */
export class PostgresServer {
  readonly host = '127.0.0.1'
  readonly #options: PostgresServerOptions
  readonly #pools = new Set<Pool>()
  #port = 0
  #dir = ''
  #process!: ServerProcess
  /** After `kill`. */
  #isDown = false

  constructor(options: PostgresServerOptions = {}) {
    this.#options = options
  }

  static async start(options?: PostgresServerOptions): Promise<PostgresServer> {
    const server = new PostgresServer(options)
    await server.start()
    return server
  }

  /** Once, before anything else; again after `kill`: `restart`. */
  async start(): Promise<void> {
    const dir = await ownedFolder('spillway-postgres-')
    const { standbyOf } = this.#options
    this.#dir = await (standbyOf === undefined ? newDataFolder(dir) : copyOf(standbyOf, dir))
    for (let tries = 0; ; tries++) {
      this.#port = await freePort()
      try {
        this.#process = await this.#launch()
        return
      } catch (error) {
        if (error instanceof PortTakenError && tries < 20) continue
        await rm(this.#dir, { recursive: true, force: true })
        throw error
      }
    }
  }

  #launch(): Promise<ServerProcess> {
    return ServerProcess.start(postgresProgram(this.#dir, this.#port, this.#options))
  }

  get port(): number {
    return this.#port
  }

  /** Of the database 'postgres', or of another one. */
  url(database = 'postgres', user = ADMIN): string {
    return `postgres://${user}@${this.host}:${this.port}/${database}`
  }

  /** The end of what the server said, for the message of a test that fails. */
  get log(): string {
    return this.#process.log
  }

  /** A pool of this server, ended when the server is stopped. */
  pool(options: PoolConfig = {}): Pool {
    const pool = poolOf({ connectionString: this.url(), ...options })
    this.#pools.add(pool)
    return pool
  }

  /** Stops all its processes (SIGSTOP): connections stay open without answers, and new ones get none. */
  pause(): void {
    this.#process.signal('SIGSTOP')
    this.#signalBackends('SIGSTOP')
  }

  unpause(): void {
    this.#signalBackends('SIGCONT')
    this.#process.signal('SIGCONT')
  }

  /**
   * SIGKILL to all its processes, as a crash would be: connections are reset, later ones refused. The port and the
   * folder stay ours.
   */
  async kill(): Promise<void> {
    if (this.#isDown) return
    this.#isDown = true
    this.#process.signal('SIGSTOP')
    this.#signalBackends('SIGKILL')
    await this.#process.kill()
    removeSharedMemory(this.#dir)
  }

  /**
   * Starts again on the same port and folder, after `kill` or by killing first: unlogged tables are empty then.
   * `clean`: shuts down first, so they keep their rows.
   */
  async restart({ clean = false } = {}): Promise<void> {
    await (clean ? this.#process.kill('SIGINT') : this.kill())
    this.#process = await this.#launch()
    this.#isDown = false
  }

  /** Ends every pool and the server, and removes its folder. */
  async stop(): Promise<void> {
    if (!this.#isDown) {
      this.unpause()
      await this.#process.kill('SIGQUIT')
    }
    // The server is gone first: a connection that is closed already makes no pool wait.
    await Promise.all([...this.#pools].filter(pool => !pool.ending).map(pool => pool.end()))
    await rm(this.#dir, { recursive: true, force: true })
  }

  #signalBackends(signal: NodeJS.Signals): void {
    for (const pid of childrenOf(this.#process.pid)) {
      try {
        process.kill(pid, signal)
      } catch {
        // It has just ended by itself.
      }
    }
  }
}

/** A pool whose broken connections are expected. */
export function poolOf(options: PoolConfig): Pool {
  const pool = new Pool({ allowExitOnIdle: true, ...options })
  pool.on('error', () => {})
  return pool
}

/** The command that runs a server in the foreground. */
export function postgresProgram(dir: string, port: number, { durable = false, settings = {} }: PostgresServerOptions) {
  const all = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    // What a killed server leaves behind is in its folder.
    dynamic_shared_memory_type: 'mmap',
    ...(durable ? {} : { fsync: 'off', full_page_writes: 'off' }),
    ...settings,
  }
  return {
    command: program('postgres'),
    args: [
      '-D',
      dir,
      '-p',
      String(port),
      ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ],
    dir,
    user: serverUser(),
    ready: /database system is ready to accept (read-only )?connections/,
    portTaken: /could not bind|could not create any TCP\/IP sockets/,
    // It removes its shared memory, and ends its processes by SIGKILL after 5 s if they do not end.
    end: 'kill -QUIT "$0"; kill -CONT "$0"',
  }
}

/** Makes `dir` a fresh cluster of databases: a copy of one that is made once on this machine. */
export async function newDataFolder(dir: string): Promise<string> {
  await run('cp', ['-R', `${await template()}/.`, dir], serverUser())
  await chmod(dir, 0o700)
  return dir
}

/** Makes `dir` a copy of a running server, which will follow it. */
async function copyOf(primary: PostgresServer, dir: string): Promise<string> {
  const args = ['-d', primary.url(), '-D', dir, '--write-recovery-conf', '--checkpoint=fast']
  await run(program('pg_basebackup'), args, { cwd: dir, ...serverUser() })
  await chmod(dir, 0o700)
  return dir
}

async function template(): Promise<string> {
  const [version] = /\d+\.?\d*/.exec(execFileSync(program('postgres'), ['--version'], { encoding: 'utf8' })) ?? ['']
  const user = serverUser()
  const made = join(tmpdir(), `spillway-initdb-${version}-${user?.uid ?? process.getuid?.()}`)
  if (existsSync(made)) return made
  const dir = await ownedFolder('spillway-initdb-')
  const args = ['-D', dir, '-U', ADMIN, '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync', '--wal-segsize=1']
  await run(program('initdb'), args, { cwd: dir, ...user })
  // Another process may have been faster.
  await rename(dir, made).catch(() => rm(dir, { recursive: true, force: true }))
  return made
}

/** A new folder that belongs to the user of servers. */
export async function ownedFolder(prefix: string): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), prefix))
  await giveToServer(dir)
  return dir
}

export async function giveToServer(dir: string): Promise<void> {
  const user = serverUser()
  if (user) await chown(dir, user.uid, user.gid)
}

let nobody: { uid: number; gid: number } | undefined

/** PostgreSQL and PgBouncer refuse to run as root: there `nobody` runs them. Elsewhere we do. */
export function serverUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined
  const id = (flag: string) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }))
  nobody ??= { uid: id('-u'), gid: id('-g') }
  return nobody
}

/** Where systems put servers that are not on PATH; the newest version first. As in scripts/ensure.mjs. */
const FOLDERS = ['/usr/lib/postgresql', '/opt/homebrew/opt', '/usr/local/opt'].flatMap(folder =>
  (existsSync(folder) ? readdirSync(folder) : [])
    .filter(name => /^(postgresql@)?\d+$/.test(name))
    .sort((a, b) => Number(/\d+/.exec(b)) - Number(/\d+/.exec(a)))
    .map(name => join(folder, name, 'bin')),
)

/** The path of a server's program on this machine. */
export function program(name: string): string {
  const folders = [...(process.env.PATH ?? '').split(delimiter), ...FOLDERS, '/usr/sbin']
  const path = folders.map(folder => join(folder, name)).find(existsSync)
  if (!path) throw new Error(`no ${name} on this machine: run \`node scripts/ensure.mjs postgres\``)
  return path
}

function childrenOf(pid: number): number[] {
  const lines = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' }).trim().split('\n')
  return lines
    .map(line => line.trim().split(/ +/).map(Number))
    .filter(([, parent]) => parent === pid)
    .map(([child]) => child)
}

/** What the system keeps of a killed server: a segment of some bytes, which nobody else would ever remove. */
function removeSharedMemory(dir: string): void {
  const [, segment] = readFileSync(join(dir, 'postmaster.pid'), 'utf8').split('\n')[6].trim().split(/ +/)
  execFileSync('ipcrm', ['-m', segment])
}
