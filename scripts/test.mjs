#!/usr/bin/env node
// `npm test`: builds, and runs the tests, or those that are named as jest names them: `npm test -- test/http`. Installs
// Redis and PostgreSQL if it may (scripts/ensure.mjs); where it may not, leaves out the files that need what is missing
// and says so, which in CI fails. `npm run test:fast` leaves out all files that need a server; and, but for CI, those
// that start other processes and verification/, and plays few random cases.
import { spawnSync } from 'node:child_process'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ensure } from './ensure.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

/** The modules that start a server: what imports one of them, over however many others, needs the server. */
const STARTERS = {
  redis: ['test/support/redis-process.ts'],
  postgres: ['test/support/postgres-server.ts', 'test/support/pg-bouncer.ts'],
}

/** The modules that start other processes, which takes seconds. */
const PROCESSES = ['support/child.ts', 'support/child-program.ts', 'operating/cli/spawn-spillway.ts']

/** @param {string[]} args @param {Record<string, string>} [env] */
function jest(args, env) {
  // The project last: that option takes all that follows.
  const command = [join(root, 'node_modules/jest/bin/jest.js'), ...args, '--selectProjects', 'test']
  return spawnSync(process.execPath, command, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', args.includes('--listTests') ? 'pipe' : 'inherit', 'inherit'],
    env: { ...process.env, ...env },
  })
}

/** The test files that import one of these, over however many others. @param {string[]} modules */
function filesOver(modules) {
  const { status, stdout } = jest(['--listTests', '--findRelatedTests', ...modules])
  if (status !== 0) throw new Error(`jest could not list the tests of ${modules.join(' ')}`)
  return stdout
    .split('\n')
    .filter(Boolean)
    .map(file => relative(root, file))
}

/**
 * @param {string} what @param {string[]} modules what is left out imports one of them @param {string[]} args
 * @param {Record<string, string>} [env]
 */
function testWithout(what, modules, args, env) {
  const leftOut = filesOver(modules)
  const { status } = jest(['--filter', join(root, 'scripts/without-files.cjs'), ...args], {
    SPILLWAY_LEFT_OUT: JSON.stringify(leftOut),
    ...env,
  })
  console.log(`Left out: the ${leftOut.length} files that need ${what}`)
  return status === 0
}

/** @param {string[]} args */
function testFast(args) {
  const servers = Object.values(STARTERS).flat()
  // It is all that runs on Windows there.
  if (process.env.CI === 'true') return testWithout('a server', servers, args)
  const processes = PROCESSES.map(module => `test/${module}`)
  return testWithout('a server or other processes', [...servers, ...processes], ['--maxWorkers', '2', ...args], {
    SPILLWAY_CASES: '0.05',
    SPILLWAY_LEFT_OUT_FOLDER: 'verification/',
  })
}

function main() {
  const args = process.argv.slice(2).filter(arg => arg !== '--fast')
  const fast = process.argv.includes('--fast')
  // Tables have rows for older versions then: test/support/older.ts.
  const [older] = process.env.SPILLWAY_VERSIONS === undefined ? [] : ensure(['versions'])
  if (older !== undefined) {
    console.error(`SPILLWAY_VERSIONS needs ${older.text}`)
    return false
  }
  const lacking = fast ? [] : ensure(Object.keys(STARTERS))
  if (spawnSync(process.execPath, [join(root, 'scripts/build.mjs')], { stdio: 'inherit' }).status !== 0) return false
  if (fast) return testFast(args)
  if (lacking.length === 0) return jest(args).status === 0
  const missing = /** @type {(keyof typeof STARTERS)[]} */ (lacking.map(({ name }) => name))
  const needing = missing.flatMap(name => STARTERS[name])
  const passed = testWithout(missing.join(' or '), needing, args)
  for (const { text } of lacking) console.log(`They need ${text}.`)
  return passed && process.env.CI !== 'true'
}

process.exitCode = main() ? 0 : 1
