import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterAll } from '@jest/globals'

const ROOT = resolve(__dirname, '../../..')

/**
 * The command for the tests of this file, bundled from the current sources, because compiling them at each start takes
 * a second.
 */
let folder: string | undefined

afterAll(() => {
  if (folder !== undefined) rmSync(folder, { recursive: true })
})

export function commandFile(): string {
  if (folder === undefined) {
    // In the project's folder, so that the command finds the package and the clients of Redis. Not committed, as all of
    // dist.*.
    folder = mkdtempSync(join(ROOT, 'dist.cli-'))
    const external = ['--external', 'ioredis', '--external', 'redis']
    const args = [
      'src/operating/cli/main.ts',
      '--format',
      'cjs',
      '--platform',
      'node',
      ...external,
      '--file',
      `${folder}/cli.cjs`,
    ]
    const { status, stderr } = spawnSync(join(ROOT, 'node_modules/.bin/rolldown'), args, {
      cwd: ROOT,
      encoding: 'utf8',
    })
    if (status !== 0) throw new Error(`the command cannot be bundled: ${stderr}`)
  }
  return join(folder, 'cli.cjs')
}

export interface Spawned {
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
}

/** The command as a user runs it: a process of its own. `with` may talk to it before it ends. */
export async function spawnSpillway(
  args: readonly string[],
  options: {
    nodeArgs?: readonly string[]
    cwd?: string
    env?: NodeJS.ProcessEnv
    with?: (child: ChildProcessWithoutNullStreams) => void
  } = {},
): Promise<Spawned> {
  const { nodeArgs = [], cwd = ROOT, env = {} } = options
  const child = spawn(process.execPath, [...nodeArgs, commandFile(), ...args], {
    cwd,
    env: { ...process.env, LC_ALL: 'C', COLUMNS: '100', ...env },
  })
  const told = Promise.all([textOf(child.stdout), textOf(child.stderr)])
  // The command may end before it has read all input; its output still counts.
  child.stdin.on('error', () => {})
  if (options.with) options.with(child)
  else child.stdin.end()
  const exitCode = await new Promise<number | null>(done => child.once('close', done))
  const [stdout, stderr] = await told
  return { exitCode, stdout, stderr }
}

async function textOf(stream: NodeJS.ReadableStream): Promise<string> {
  let text = ''
  // A test may destroy the output, like a reader that closes the pipe: then there is no more text.
  stream.on('data', block => {
    text += block
  })
  await new Promise(done => stream.once('close', done))
  return text
}
