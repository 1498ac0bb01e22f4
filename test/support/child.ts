import { spawn } from 'node:child_process'
import { childProgram } from './child-program.js'

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
