#!/usr/bin/env node
// Makes sure that the programs which tests, proofs and drawings start are on this machine:
// `node scripts/ensure.mjs redis chromium`. Silent where they are; else it INSTALLS them by the system's packages if it
// may do so without asking; else it fails with one line that says how to install them.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/**
 * `programs`: of each list one must be there.
 *
 * @typedef {{ programs: string[][], apt: string[], apk: string[], brew: string[] }} Need
 * @type {Record<string, Need>}
 */
const NEEDS = {
  redis: { programs: [['redis-server', 'valkey-server']], apt: ['redis-server'], apk: ['redis'], brew: ['redis'] },
  chromium: {
    programs: [['chromium', 'chromium-browser', 'google-chrome']],
    apt: ['chromium'],
    apk: ['chromium'],
    brew: ['chromium'],
  },
  // Debian also starts a server of its own, on the usual port. The tests use other ports.
  postgres: {
    programs: [['postgres'], ['initdb'], ['pgbouncer']],
    apt: ['postgresql', 'pgbouncer'],
    apk: ['postgresql', 'pgbouncer'],
    brew: ['postgresql@17', 'pgbouncer'],
  },
  // Steps a server's clock: test/support/stepped-clock.c.
  compiler: { programs: [['cc']], apt: ['build-essential'], apk: ['build-base'], brew: ['gcc'] },
  prometheus: {
    programs: [['prometheus'], ['promtool']],
    apt: ['prometheus'],
    apk: ['prometheus'],
    brew: ['prometheus'],
  },
  spin: {
    programs: [['spin'], ['gcc']],
    apt: ['spin', 'gcc', 'libc6-dev'],
    apk: ['gcc', 'musl-dev'],
    brew: ['spin', 'gcc'],
  },
}

/** Where systems put servers, though they are not on PATH. As in test/support/postgres-server.ts. */
const folders = () =>
  ['/usr/lib/postgresql', '/opt/homebrew/opt', '/usr/local/opt']
    .filter(folder => existsSync(folder))
    .flatMap(folder => readdirSync(folder).map(name => join(folder, name, 'bin')))

/** @param {string} program */
const has = program =>
  spawnSync(program, ['--version'], {
    stdio: 'ignore',
    env: { ...process.env, PATH: [process.env.PATH, '/usr/sbin', ...folders()].join(delimiter) },
  }).error === undefined

const missing = (/** @type {Need} */ { programs }) =>
  programs.filter(names => !names.some(has)).map(names => names.join(' or '))

/**
 * The commands that install packages here without asking anyone anything; none where we may not.
 *
 * @param {Need} need
 */
function installation({ apt: debian, apk: alpine, brew }) {
  const isRoot = process.getuid?.() === 0
  const mayBeRoot = isRoot || spawnSync('sudo', ['-n', 'true'], { stdio: 'ignore' }).status === 0
  const root = isRoot ? [] : ['sudo', '-n']
  if (mayBeRoot && has('apt-get')) {
    const apt = [...root, 'env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get']
    return [
      [...apt, 'update'],
      [...apt, 'install', '-y', '--no-install-recommends', ...debian],
    ]
  }
  if (mayBeRoot && has('apk')) return [[...root, 'apk', 'add', '--no-cache', ...alpine]]
  // Homebrew refuses to run as root and needs no rights.
  if (!isRoot && has('brew')) return [['brew', 'install', ...brew]]
  return []
}

for (const name of process.argv.slice(2)) {
  const need = NEEDS[name]
  if (missing(need).length === 0) continue
  for (const [program, ...args] of installation(need)) {
    console.log(`There is no ${missing(need).join(', no ')}: running ${[program, ...args].join(' ')}`)
    const { status, stdout, stderr } = spawnSync(program, args, { stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' })
    if (status !== 0) console.error(`${stdout ?? ''}${stderr ?? ''}`.trimEnd())
  }
  const still = missing(need)
  if (still.length === 0) continue
  console.error(
    `This needs ${still.join(' and ')} on PATH: install it, like \`apt-get install ${need.apt.join(' ')}\`.`,
  )
  process.exitCode = 1
}
