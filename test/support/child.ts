import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { childProgram } from './child-program.js'
import { eventually } from './eventually.js'

export interface ChildResult {
  readonly code: number | null
  /** Why it was ended, if it did not end by itself in time. */
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
  readonly ms: number
}

export interface ChildOptions {
  /** For node, before the script. */
  readonly flags?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly timeoutMs?: number
}

/**
 * Runs TypeScript in a process of its own, from the root of the project: `import` from './src/…'. Ends it after
 * `timeoutMs`, default 20 s.
 */
export function runChild(
  source: string,
  { flags = [], env = {}, timeoutMs = 20_000 }: ChildOptions = {},
): Promise<ChildResult> {
  const args = [...flags, childProgram(source)]
  const child = spawn(process.execPath, args, {
    cwd: process.cwd(),
    env: { ...process.env, NODE_OPTIONS: '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const startedAt = performance.now()
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', data => {
    stdout += data
  })
  child.stderr.on('data', data => {
    stderr += data
  })
  const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs)
  return new Promise((done, fail) => {
    child.once('error', fail)
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      done({ code, signal, stdout, stderr, ms: performance.now() - startedAt })
    })
  })
}

/** The last output of the script, as JSON; fails with the output if the script failed. */
export async function jsonFromChild<T>(source: string, options?: ChildOptions): Promise<T> {
  const { code, signal, stdout, stderr } = await runChild(source, options)
  if (code !== 0) throw new Error(`the child ended with ${code ?? signal}:\n${stderr}\n${stdout}`)
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
}

/**
 * A process of its own that does what this TypeScript does, and tells when it is ready, answers orders or says things
 * by messages: see `answering`. Ends with the process that started it.
 */
export class Child {
  /** Everything that it has said since it was ready. */
  readonly said: unknown[] = []
  /** The code with which it ended; undefined if it was killed. */
  readonly ended: Promise<number | undefined>

  private constructor(readonly process: ChildProcess) {
    process.on('message', message => this.said.push(message))
    this.ended = once(process, 'exit').then(([code]) => code ?? undefined)
  }

  /** `args`: what it reads from `process.argv.slice(2)`. Resolves when it is ready. */
  static async start(source: string, args: readonly unknown[] = [], execArgv: readonly string[] = []): Promise<Child> {
    const env = { ...process.env, NODE_OPTIONS: '' }
    const child = fork(childProgram(source), args.map(String), { execArgv: [...execArgv], env })
    await Promise.race([
      once(child, 'message'),
      once(child, 'exit').then(([code]) => Promise.reject(new Error(`a child ended with ${code} before it was ready`))),
    ])
    return new Child(child)
  }

  /** So many at once. */
  static startAll(count: number, source: string, args: readonly unknown[] = []): Promise<Child[]> {
    return Promise.all(Array.from({ length: count }, () => Child.start(source, args)))
  }

  /** Resolves with the next message; one question at a time. */
  async ask<Answer>(order: unknown): Promise<Answer> {
    this.process.send(order as object)
    const [answer] = await Promise.race([
      once(this.process, 'message'),
      this.ended.then(code => Promise.reject(new Error(`a child ended with ${code} instead of an answer`))),
    ])
    return answer as Answer
  }

  get pid(): number | undefined {
    return this.process.pid
  }

  says(text: string): Promise<void> {
    return eventually(`it says ${text}`, async () => this.said.includes(text))
  }

  kill(signal: NodeJS.Signals = 'SIGKILL'): void {
    this.process.kill(signal)
  }
}
