import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** A program that runs JavaScript. */
export interface Runtime {
  /** As docs/runtimes.md calls it: the column. */
  readonly column: string
  /** With its version. */
  readonly title: string
  readonly version: string
  /** The command line, to which the file is added. */
  readonly command: readonly [program: string, ...args: string[]]
}

const LOCKED = join(import.meta.dirname, 'binaries')
/** Not beside their lock: they take a gigabyte, and tests copy this folder. */
const FOLDER = join(import.meta.dirname, '../../node_modules/.cache/spillway-runtimes')

/** [column, program of the package of npm whose version binaries/package.json says, arguments] */
const PROGRAMS = [
  ['Node', 'node20/bin/node', []],
  ['Node', 'node22/bin/node', []],
  ['Node', 'node24/bin/node', []],
  ['Node', 'node26/bin/node', []],
  ['Bun', '@oven/bun-linux-x64/bin/bun', ['run']],
  ['Deno', '@deno/linux-x64-glibc/deno', ['run', '--allow-all', '--quiet']],
] as const

/** Runs npm in a folder; throws with what it printed when it fails. */
export function npm(cwd: string, ...args: string[]): string {
  const { status, stdout, stderr, error } = spawnSync('npm', args, { cwd, encoding: 'utf8' })
  if (status === 0) return stdout
  throw new Error(`npm ${args.join(' ')}: ${error ?? `exit code ${status}`}\n${stdout}${stderr}`)
}

/** The runtimes, installed from their npm packages if they are not there yet. */
export function runtimes(): Runtime[] {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    throw new Error(
      `The runtimes are locked for Linux on x64, and this is ${process.platform} on ${process.arch}: run this there`,
    )
  }
  const lock = readFileSync(join(LOCKED, 'package-lock.json'), 'utf8')
  const installed = join(FOLDER, 'node_modules', '.installed-from')
  if (!existsSync(installed) || readFileSync(installed, 'utf8') !== lock) {
    cpSync(LOCKED, FOLDER, { recursive: true })
    npm(FOLDER, 'ci', '--ignore-scripts')
    writeFileSync(installed, lock)
  }
  return PROGRAMS.map(([column, file, args]) => {
    const program = join(FOLDER, 'node_modules', file)
    const version = /\d+\.\d+\.\d+/.exec(spawnSync(program, ['--version'], { encoding: 'utf8' }).stdout)?.[0]
    if (version === undefined) throw new Error(`${program} does not run here`)
    return { column, title: `${column} ${version}`, version, command: [program, ...args] }
  })
}

/** The path of a Node that has SQLite: this one, or else one of those. */
export function nodeWithSqlite(): string {
  if (process.getBuiltinModule('node:sqlite') !== undefined) return process.execPath
  return runtimes().find(({ title }) => title.startsWith('Node 22'))!.command[0]
}
