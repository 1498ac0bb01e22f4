import { type ChildProcess, spawn } from 'node:child_process'
import type { Socket } from 'node:net'

const START_MS = 20_000

/** The port is not free any more: try another. */
export class PortTakenError extends Error {}

/** A server that tests start. */
export interface ServerProgram {
  readonly command: string
  readonly args: readonly string[]
  /** Where it runs. Removed with the server if this process dies; otherwise it is the caller's. */
  readonly dir: string
  readonly env?: Readonly<Record<string, string>>
  /** Whom it runs as. Default: as this process. */
  readonly user?: { readonly uid: number; readonly gid: number }
  /** What it says when it accepts connections. */
  readonly ready: RegExp
  /** What it says when it cannot have its port. */
  readonly portTaken: RegExp
  /** A command of the shell that ends process `$0` for good, whatever it does. Default: SIGKILL. */
  readonly end?: string
}

/** One running server, which does not outlive this process, however this process ends. */
export class ServerProcess {
  readonly pid: number
  readonly #program: ServerProgram
  readonly #child: ChildProcess
  readonly #guard: ChildProcess
  readonly #exited: Promise<unknown>
  #log = ''

  private constructor(program: ServerProgram) {
    const { command, args, dir, env, user } = program
    this.#program = program
    const stdio: ['ignore', 'pipe', 'pipe'] = ['ignore', 'pipe', 'pipe']
    this.#child = spawn(command, args, { cwd: dir, stdio, env: { ...process.env, ...env }, ...user })
    this.#exited = new Promise(resolve => this.#child.once('exit', resolve))
    this.pid = this.#child.pid as number
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', data => {
        this.#log = (this.#log + data).slice(-20_000)
      })
    }
    this.#guard = guard(this.pid, program)
  }

  /** Resolves when the server accepts connections. Rejects with `PortTakenError`, or with the server's own words. */
  static async start(program: ServerProgram): Promise<ServerProcess> {
    const server = new ServerProcess(program)
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

  /** SIGKILL, which ends a stopped process too, or a signal that lets the server clean up. Resolves when it is gone. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    this.#holdProcess(true)
    this.#child.kill(signal)
    await this.#exited
    // A child process of the server may keep the other end of these open a little longer.
    this.#child.stdout?.destroy()
    this.#child.stderr?.destroy()
    this.#guard.stdin?.end('done\n')
    this.#guard.unref()
  }

  // Its own words are the only proof that it is this server that answers: another one may hold the port by now, and
  // would answer as gladly.
  #ready(): Promise<void> {
    const { command, ready, portTaken } = this.#program
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => fail(`said nothing of being ready in ${START_MS} ms`), START_MS)
      const fail = (what: string) => {
        clearTimeout(timer)
        const Kind = portTaken.test(this.#log) ? PortTakenError : Error
        reject(new Kind(`${command} ${what}:\n${this.#log}`))
      }
      const look = () => {
        if (!ready.test(this.#log)) return
        clearTimeout(timer)
        resolve()
      }
      this.#child.stdout?.on('data', look)
      this.#child.stderr?.on('data', look)
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
 * A shell that waits on a pipe from us. The system closes the pipe when we end, even by SIGKILL, and then the shell
 * ends the server; a line on the pipe means that it is no longer needed. In a group of its own, so that Ctrl-C does not
 * reach it.
 */
function guard(pid: number, { dir, end = 'kill -9 "$0"' }: ServerProgram): ChildProcess {
  const script = `read -r _ || { ${end}; rm -rf "$1"; }`
  const shell = spawn('sh', ['-c', script, String(pid), dir], { stdio: ['pipe', 'ignore', 'ignore'], detached: true })
  shell.stdin?.on('error', () => {})
  shell.unref()
  ;(shell.stdin as Socket | null)?.unref()
  return shell
}
