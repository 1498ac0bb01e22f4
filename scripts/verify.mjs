#!/usr/bin/env node
// `npm run verify -- faults live`: one kind of verification beside `npm test`, and what is passed on to it. Without a
// name it lists the kinds. What a kind needs is installed by scripts/ensure.mjs if that may.
import { spawnSync } from 'node:child_process'
import { ensure } from './ensure.mjs'

const TYPESCRIPT = ['node', '--import', 'tsx']
const JEST = ['node', 'node_modules/jest/bin/jest.js']
const NEWER_NODE = [...TYPESCRIPT, 'test/runtimes/newer-node.ts', ...JEST.slice(1)]

/**
 * Tests of these projects of jest, and further options. What is named on the command line stands in front: some options
 * take all that follows.
 *
 * @param {string} projects @param {string[]} options @returns {Command}
 */
const jest = (projects, ...options) => [JEST, ['--selectProjects', ...projects.split(' '), ...options]]
/** @param {string[]} options @returns {Command} */
const sqlite = (...options) => [NEWER_NODE, ['--selectProjects', 'sqlite', ...options]]
/** @param {string[]} command @returns {Command} */
const program = (...command) => [command, []]

/**
 * `commands` run one after the other, all of them; those that are named on the command line go to the first, which then
 * runs alone.
 *
 * @typedef {[start: string[], end: string[]]} Command what is named on the command line stands between
 * @typedef {{ what: string, needs?: string[], before?: string, env?: Record<string, string>, commands: Command[] }}
 *   Kind
 * @type {Record<string, Kind>}
 */
const KINDS = {
  versions: {
    what: 'the contracts, and what depends on versions, over older clients and frameworks; then the suite of bottleneck',
    needs: ['redis', 'postgres', 'versions'],
    before: 'build',
    env: { SPILLWAY_VERSIONS: process.env.SPILLWAY_VERSIONS ?? 'all' },
    commands: [
      jest('versions', '--testPathIgnorePatterns', 'versions/bottleneck'),
      program('node', 'node_modules/typescript/bin/tsc', '-p', 'test/versions'),
      // In a run of its own: two versions of GLIDE in one process mix up their messages.
      jest('clients'),
      jest('test', '--findRelatedTests', 'test/support/older.ts'),
      // Alone: it compares times on the wall.
      jest('versions', '--testPathPatterns', 'versions/bottleneck'),
    ],
  },
  everywhere: {
    what: 'every contract whole, over each client, framework and version; npm test runs what depends on none once',
    needs: ['redis', 'postgres', 'versions'],
    before: 'build',
    env: { SPILLWAY_CONTRACTS: 'everywhere', SPILLWAY_VERSIONS: 'all' },
    commands: [
      jest('test clients', '--findRelatedTests', 'test/support/everywhere.ts', 'test/support/older.ts'),
      jest('versions'),
    ],
  },
  sqlite: { what: 'what needs SQLite, on a Node that has it', before: 'embed', commands: [sqlite()] },
  random: {
    what: 'the tests with random cases once more, with all cases instead of a tenth',
    needs: ['redis', 'postgres'],
    before: 'build',
    env: { SPILLWAY_CASES: 'all' },
    commands: [jest('test', '--findRelatedTests', 'test/support/cases.ts')],
  },
  browser: {
    what: 'the pages and the site in a real Chromium',
    needs: ['redis', 'chromium'],
    before: 'site',
    commands: [jest('browser', '--runInBand')],
  },
  runtimes: {
    what: 'the packed package on Node 20 to 26, Bun and Deno, which come from npm; on Linux, x64',
    needs: ['redis'],
    before: 'build',
    commands: [program(...TYPESCRIPT, 'test/runtimes/run.ts')],
  },
  storms: {
    what: 'more requests than the processors can handle, for some seconds',
    needs: ['redis'],
    before: 'build',
    commands: [jest('storms', '--runInBand')],
  },
  faults: {
    what: 'servers and processes that are stopped, killed and cut off',
    needs: ['redis', 'postgres', 'compiler', 'versions'],
    before: 'build',
    env: { SPILLWAY_CASES: 'all', SPILLWAY_VERSIONS: 'all' },
    commands: [jest('faults', '--runInBand'), sqlite('--testPathPatterns', 'sqlite/audit')],
  },
  histories: {
    what: 'processes use everything while servers fail, and a checker reads what they wrote: --minutes 10 --servers all',
    needs: ['redis'],
    before: 'embed',
    commands: [program(...TYPESCRIPT, 'verification/histories/run.ts')],
  },
  mutants: {
    what: 'one rule of the code is left out, and the simulation, or the test that it is for, must find what breaks',
    needs: ['redis'],
    before: 'embed',
    commands: [program(...TYPESCRIPT, 'verification/mutants/mutate.ts')],
  },
  soak: {
    what: 'mixed traffic and cut connections: whether anything grows: --minutes 60',
    needs: ['redis'],
    before: 'embed',
    commands: [program(...TYPESCRIPT, 'verification/soak/run.ts')],
  },
  servers: {
    what: 'the contracts of every client on Redis 8, Valkey 8 and Valkey 9, from the mirror of Debian; on Debian only',
    before: 'build',
    commands: [program('node', 'scripts/other-servers.mjs')],
  },
  coverage: {
    what: 'npm test, and which lines of src it ran: coverage/index.html',
    needs: ['redis', 'postgres'],
    before: 'build',
    commands: [jest('test', '--coverage')],
  },
}

/** @param {string[]} command @param {Record<string, string>} [env] */
function succeeds([program, ...args], env) {
  const path = program === 'node' ? process.execPath : program
  return spawnSync(path, args, { stdio: 'inherit', env: { ...process.env, ...env } }).status === 0
}

/** @param {string | undefined} name @param {string[]} args */
function main(name, args) {
  const kind = KINDS[name ?? '']
  if (kind === undefined) {
    const list = Object.entries(KINDS).map(([name, { what }]) => `  ${name.padEnd(12)}${what}`)
    console.error(`npm run verify -- <kind> [what is passed on to it]\n${list.join('\n')}`)
    return false
  }
  const lacking = ensure(kind.needs ?? [])
  for (const { text } of lacking) console.error(`This needs ${text}.`)
  if (lacking.length > 0) return false
  if (kind.before !== undefined && !succeeds(['npm', 'run', kind.before])) return false
  const [main, ...others] = kind.commands
  if (args.length > 0) return succeeds([...main[0], ...args, ...main[1]], kind.env)
  // All of them, so that a failure hides no other.
  return [main, ...others].map(([start, end]) => succeeds([...start, ...end], kind.env)).every(Boolean)
}

process.exitCode = main(process.argv[2], process.argv.slice(3)) ? 0 : 1
