import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { resolve } from 'node:path'

const ROOT = resolve(__dirname, '../..')

export interface Spawned {
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
}

/** The command as a user runs it: a process of its own. `with` may talk to it before it ends. */
export async function spawnSpillway(
  args: readonly string[],
  options: { nodeArgs?: readonly string[]; with?: (child: ChildProcessWithoutNullStreams) => void } = {},
): Promise<Spawned> {
  const { nodeArgs = [] } = options
  const child = spawn(process.execPath, [...nodeArgs, '--import', 'tsx', 'src/cli/main.ts', ...args], {
    cwd: ROOT,
    env: { ...process.env, LC_ALL: 'C', COLUMNS: '100' },
  })
  const told = Promise.all([textOf(child.stdout), textOf(child.stderr)])
  // The command may well end before it has read all; what it says then is what counts.
  child.stdin.on('error', () => {})
  if (options.with) options.with(child)
  else child.stdin.end()
  const exitCode = await new Promise<number | null>(done => child.once('close', done))
  const [stdout, stderr] = await told
  return { exitCode, stdout, stderr }
}

async function textOf(stream: NodeJS.ReadableStream): Promise<string> {
  let text = ''
  // Destroyed by a test that plays a reader who has seen enough: then there is no more text.
  stream.on('data', block => {
    text += block
  })
  await new Promise(done => stream.once('close', done))
  return text
}
