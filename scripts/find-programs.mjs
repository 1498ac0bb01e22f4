// Finds programs that tests start, or installs them if permitted, or else fails with one line that explains how to install them.
import { spawnSync } from 'node:child_process'

/** @param {string} program */
const has = program => spawnSync(program, ['--version'], { stdio: 'ignore' }).error === undefined

/** @param {string} program @param {string[]} args */
const succeeds = (program, args) => spawnSync(program, args, { stdio: 'ignore' }).status === 0

/**
 * The commands that install a package here without asking anyone anything; undefined where we may not.
 * @param {Record<'apt' | 'apk' | 'brew', string>} packages
 */
function installation({ apt: debian, apk: alpine, brew }) {
  const isRoot = process.getuid?.() === 0
  const root = isRoot ? [] : succeeds('sudo', ['-n', 'true']) ? ['sudo', '-n'] : undefined
  if (root && has('apt-get')) {
    const apt = [...root, 'env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get']
    return [
      [...apt, 'update'],
      [...apt, 'install', '-y', '--no-install-recommends', debian],
    ]
  }
  if (root && has('apk')) return [[...root, 'apk', 'add', '--no-cache', alpine]]
  // Homebrew refuses to run as root and needs no rights.
  if (!isRoot && has('brew')) return [['brew', 'install', brew]]
}

/**
 * Silent when the programs are there. `need` names them, `found` looks for them, `remedy` is said when there is no way.
 * @param {{ need: string, found: (has: (program: string) => boolean) => boolean, packages: Record<'apt' | 'apk' | 'brew', string>, remedy: string }} wanted
 */
export function findPrograms({ need, found, packages, remedy }) {
  if (found(has)) return
  for (const [program, ...args] of installation(packages) ?? []) {
    console.log(`The tests need ${need} and there is none: running ${[program, ...args].join(' ')}`)
    const { status, stdout, stderr } = spawnSync(program, args, { stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' })
    if (status !== 0) console.error(`${stdout}${stderr}`.trimEnd())
  }
  if (found(has)) return
  console.error(remedy)
  process.exitCode = 1
}
