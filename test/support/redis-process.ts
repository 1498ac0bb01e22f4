import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import type { Socket } from 'node:net'
import { delimiter, join } from 'node:path'

const READY = /Ready to accept connections|Sentinel ID is/
const PORT_TAKEN = /Address already in use|Failed listening on port/
const START_MS = 20_000

let binary: string | undefined

/** The server program on this machine: redis-server, or valkey-server. */
export function redisBinary(): string {
  const folders = (process.env.PATH ?? '').split(delimiter)
  binary ??= ['redis-server', 'valkey-server'].find(name => folders.some(folder => existsSync(join(folder, name))))
  if (!binary) throw new Error('no redis-server or valkey-server on PATH: run `node scripts/ensure.mjs`')
  return binary
}

/** The port is not free any more: try another. */
export class PortTakenError extends Error {}

/** One running redis-server, which does not outlive this process, however this process ends. */
export class RedisProcess {
  readonly pid: number
  readonly #child: ChildProcess
  readonly #guard: ChildProcess
  readonly #exited: Promise<unknown>
  #log = ''

  /** `dir` is removed with the server if this process dies; otherwise it is the caller's. */
  private constructor(args: readonly string[], dir: string, env: Readonly<Record<string, string>>) {
    const stdio: ['ignore', 'pipe', 'pipe'] = ['ignore', 'pipe', 'pipe']
    this.#child = spawn(redisBinary(), args, { cwd: dir, stdio, env: { ...process.env, ...env } })
    this.#exited = new Promise(resolve => this.#child.once('exit', resolve))
    this.pid = this.#child.pid as number
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', data => {
        this.#log = (this.#log + data).slice(-20_000)
      })
    }
    this.#guard = guard(this.pid, dir)
  }

  /** Resolves when the server accepts connections. Rejects with `PortTakenError`, or with the server's own words. */
  static async start(
    args: readonly string[],
    dir: string,
    env: Readonly<Record<string, string>> = {},
  ): Promise<RedisProcess> {
    const server = new RedisProcess(args, dir, env)
    try {
      await server.#ready()
    } catch (error) {
      await server.kill()
      throw error
    }
    server.#holdProcess(false)
    return server
  }

  /** The last 20 000 characters of what the server said. */
  get log(): string {
    return this.#log
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name)
  }

  /** SIGKILL, which ends a stopped process too. Resolves when it is gone. */
  async kill(): Promise<void> {
    this.#holdProcess(true)
    this.#child.kill('SIGKILL')
    await this.#exited
    // A child process that saves in the background may keep the other end of these open a little longer.
    this.#child.stdout?.destroy()
    this.#child.stderr?.destroy()
    this.#guard.stdin?.end('done\n')
    this.#guard.unref()
  }

  // Its own words are the only proof that it is this server that answers: another one may hold the port by now, and would
  // answer a PING as gladly.
  #ready(): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => fail(`said nothing of being ready in ${START_MS} ms`), START_MS)
      const fail = (what: string) => {
        clearTimeout(timer)
        const Kind = PORT_TAKEN.test(this.#log) ? PortTakenError : Error
        reject(new Kind(`${redisBinary()} ${what}:\n${this.#log}`))
      }
      this.#child.stdout?.on('data', () => {
        if (!READY.test(this.#log)) return
        clearTimeout(timer)
        resolve()
      })
      this.#child.once('close', code => fail(`ended with code ${code}`))
    })
  }

  /** A server that runs must not keep a finished test run alive; one that is awaited must. */
  #holdProcess(hold: boolean): void {
    const verb = hold ? 'ref' : 'unref'
    this.#child[verb]()
    for (const stream of [this.#child.stdout, this.#child.stderr]) (stream as Socket | null)?.[verb]()
  }
}

/**
 * A shell that waits on a pipe from us. The system closes the pipe when we end, even by SIGKILL, and then the shell ends the
 * server; a line on the pipe means that it is no longer needed. In a group of its own, so that Ctrl-C does not reach it.
 */
function guard(pid: number, dir: string): ChildProcess {
  const script = 'read -r _ || { kill -9 "$0"; rm -rf "$1"; }'
  const shell = spawn('sh', ['-c', script, String(pid), dir], { stdio: ['pipe', 'ignore', 'ignore'], detached: true })
  shell.stdin?.on('error', () => {})
  shell.unref()
  ;(shell.stdin as Socket | null)?.unref()
  return shell
}

/** Waits until `check` holds, asking every 10 ms; rejects after `timeoutMs` with `what`. */
export async function eventually(what: string, check: () => Promise<boolean>, timeoutMs = 20_000): Promise<void> {
  const end = performance.now() + timeoutMs
  while (!(await check().catch(() => false))) {
    if (performance.now() > end) throw new Error(`${what}: not within ${timeoutMs} ms`)
    await new Promise(resolve => setTimeout(resolve, 10))
  }
}
