import { spawnSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { root } from '../support/files.js'

/** Runs a command to its end and returns its output; throws with the output if it failed. */
export function run(cwd: string, program: string, ...args: string[]): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, { cwd, encoding: 'utf8' })
  if (status === 0) return stdout
  throw new Error(`${program} ${args.join(' ')}: ${error ?? `exit code ${status}`}\n${stdout}${stderr}`)
}

/** A new project of a user, in a folder of its own, with the package as a tarball beside it; not yet installed. */
export function userProject(settings: object = {}): {
  home: string
  tarball: string
} {
  run(root, process.execPath, 'scripts/build.mjs')
  const home = mkdtempSync(join(tmpdir(), 'spillway-user-'))
  const pack = run(root, 'npm', 'pack', '--ignore-scripts', '--json', '--pack-destination', home)
  const [{ filename }] = JSON.parse(pack) as [{ filename: string }]
  writeFileSync(join(home, 'package.json'), JSON.stringify({ private: true, ...settings }))
  return { home, tarball: join(home, filename) }
}
