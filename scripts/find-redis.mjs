#!/usr/bin/env node
// Makes sure that the tests have a real Redis (or Valkey) to start: silent when there is one, else installs it where it may, else
// fails with one line that tells how.
import { spawnSync } from 'node:child_process'

/** @param {string} program */
const has = program => spawnSync(program, ['--version'], { stdio: 'ignore' }).error === undefined
const hasServer = () => has('redis-server') || has('valkey-server')

/** @param {string} program @param {string[]} args */
const succeeds = (program, args) => spawnSync(program, args, { stdio: 'ignore' }).status === 0

/** The commands that install Redis here without asking anyone anything; undefined where we may not. */
function installation() {
  const isRoot = process.getuid?.() === 0
  const root = isRoot ? [] : succeeds('sudo', ['-n', 'true']) ? ['sudo', '-n'] : undefined
  if (root && has('apt-get')) {
    const apt = [...root, 'env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get']
    return [
      [...apt, 'update'],
      [...apt, 'install', '-y', '--no-install-recommends', 'redis-server'],
    ]
  }
  if (root && has('apk')) return [[...root, 'apk', 'add', '--no-cache', 'redis']]
  // Homebrew refuses to run as root and needs no rights.
  if (!isRoot && has('brew')) return [['brew', 'install', 'redis']]
}

function install() {
  for (const [program, ...args] of installation() ?? []) {
    console.log(`The tests need a Redis server and there is none: running ${[program, ...args].join(' ')}`)
    const { status, stdout, stderr } = spawnSync(program, args, { stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' })
    if (status !== 0) console.error(`${stdout}${stderr}`.trimEnd())
  }
}

if (!hasServer()) install()
if (!hasServer()) {
  console.error(
    'The tests need redis-server or valkey-server on PATH: install it, like `apt-get install redis-server` or `brew install redis`.',
  )
  process.exitCode = 1
}
