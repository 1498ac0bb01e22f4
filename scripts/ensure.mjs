#!/usr/bin/env node
// Makes sure that the programs which tests, proofs and drawings start are on this machine, and that the packages which
// only some of them need are installed: `node scripts/ensure.mjs redis chromium versions`. Silent where they are.
// Packages of npm are installed into their folder. Programs are INSTALLED by the system's packages if CI=true, if
// SPILLWAY_INSTALL=1 or for root; else it fails with one line that says how to install them.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))

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
  luacheck: { programs: [['luacheck']], apt: ['lua-check'], apk: ['luacheck'], brew: ['luacheck'] },
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

/** Packages of npm that `npm ci` does not install: the folder of their lock file. @type {Record<string, string>} */
const FOLDERS = { versions: 'test/versions' }

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
  const mayInstall = isRoot || process.env.CI === 'true' || process.env.SPILLWAY_INSTALL === '1'
  if (!mayInstall) return []
  const mayBeRoot = isRoot || spawnSync('sudo', ['-n', 'true'], { stdio: 'ignore' }).status === 0
  const asRoot = isRoot ? [] : ['sudo', '-n']
  if (mayBeRoot && has('apt-get')) {
    const apt = [...asRoot, 'env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get']
    return [
      [...apt, 'update'],
      [...apt, 'install', '-y', '--no-install-recommends', ...debian],
    ]
  }
  if (mayBeRoot && has('apk')) return [[...asRoot, 'apk', 'add', '--no-cache', ...alpine]]
  // Homebrew refuses to run as root and needs no rights.
  if (!isRoot && has('brew')) return [['brew', 'install', ...brew]]
  return []
}

/**
 * Installs the programs of one name if it may.
 *
 * @param {string} name
 * @returns {string | undefined} what is still missing, and how to install it
 */
function ensurePrograms(name) {
  const need = NEEDS[name]
  if (missing(need).length === 0) return undefined
  for (const [program, ...args] of installation(need)) {
    console.log(`There is no ${missing(need).join(', no ')}: running ${[program, ...args].join(' ')}`)
    const { status, stdout, stderr } = spawnSync(program, args, { stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' })
    if (status !== 0) console.error(`${stdout ?? ''}${stderr ?? ''}`.trimEnd())
  }
  const still = missing(need)
  if (still.length === 0) return undefined
  const like = `\`apt-get install ${need.apt.join(' ')}\``
  return `${still.join(' and ')} on PATH: install it, like ${like}, or set SPILLWAY_INSTALL=1`
}

/**
 * Installs the packages of a folder unless they are there as its lock file says.
 *
 * @param {string} folder
 * @returns {string | undefined} what went wrong
 */
function ensurePackages(folder) {
  const home = join(root, folder)
  const lock = readFileSync(join(home, 'package-lock.json'), 'utf8')
  const installed = join(home, 'node_modules/.installed-from')
  if (existsSync(installed) && readFileSync(installed, 'utf8') === lock) return undefined
  console.log(`Installing the packages of ${folder}`)
  const shell = process.platform === 'win32'
  const { status } = spawnSync('npm', ['ci', '--ignore-scripts'], { cwd: home, stdio: 'inherit', shell })
  if (status !== 0) return `the packages of ${folder}, which npm could not install (see above)`
  writeFileSync(installed, lock)
  return undefined
}

/**
 * Installs what it may of these.
 *
 * @param {readonly string[]} names
 * @returns {{ name: string, text: string }[]} what is still missing
 */
export function ensure(names) {
  return names.flatMap(name => {
    const text = name in FOLDERS ? ensurePackages(FOLDERS[name]) : ensurePrograms(name)
    return text === undefined ? [] : [{ name, text }]
  })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const { text } of ensure(process.argv.slice(2))) {
    console.error(`This needs ${text}.`)
    process.exitCode = 1
  }
}
