import { spawnSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const bench = join(dirname(fileURLToPath(import.meta.url)), '..')

/** Builds what is measured and installs the peers, each only if that was not done yet. */
export function prepare(): void {
  run(process.execPath, [join(bench, '../scripts/build.mjs')])
  const installed = changedAt('node_modules/.package-lock.json')
  if (installed !== undefined && installed >= changedAt('package-lock.json')!) return
  console.log('Installing the peers in bench/node_modules')
  run('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'])
}

function changedAt(file: string): number | undefined {
  return statSync(join(bench, file), { throwIfNoEntry: false })?.mtimeMs
}

function run(program: string, args: readonly string[]): void {
  const { status, error } = spawnSync(program, args, { cwd: bench, stdio: ['ignore', 'inherit', 'inherit'] })
  if (status === 0) return
  console.error(`bench: ${program} ${args.join(' ')} failed${error ? `: ${error.message}` : ''}`)
  process.exit(1)
}
