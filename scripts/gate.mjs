#!/usr/bin/env node
// `npm run gate`: what must hold before a change lands, what is quickest to fail first. `npm run nightly`: what takes
// long or needs the machine for itself. `npm run gate -- lint test`: these steps alone. `--changed` adds to the gate
// the steps of the nightly that watch what has changed (.ci/run). Every step runs, whether or not those before it
// failed; at the end stand a table of them and the sum of all tests, and the exit code is 0 only if every step passed.
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * `run`: a command by which the step is run again by hand. `again`: its tests have run in another step, and do not
 * count twice.
 *
 * @typedef {{ name: string, run: string, env?: Record<string, string>, again?: boolean }} Step
 */

/** Minutes that the steps of `--changed` may take with the gate: what has not begun or ended by then has failed. */
const MINUTES = 75

/** New in each run, and printed: the command of the step says it. */
const seed = process.env.SPILLWAY_SEED ?? String(Date.now() % 1e9)

/** @type {Step[]} */
const GATE = [
  { name: 'lint', run: 'npm run lint' },
  { name: 'types', run: 'npm run types' },
  { name: 'test', run: 'npm test', env: { SPILLWAY_VERSIONS: 'one' } },
  { name: 'sqlite', run: 'npm run verify -- sqlite' },
  { name: 'check', run: 'npm run check' },
  { name: 'browser', run: 'npm run verify -- browser' },
  {
    name: 'versions',
    run: 'npm run verify -- versions express4 fastify4 hono3 koa2 nest11 nitro mcp125 pages clients glide22',
    env: { SPILLWAY_VERSIONS: 'one' },
  },
  { name: 'simulation', run: 'npm run simulate -- --seed 1 --schedules 2000' },
  { name: 'proofs', run: 'npm run prove -- blocks bottleneck budgets pauses queue sql' },
]

/** @type {Step[]} */
const NIGHTLY = [
  { name: 'versions', run: 'npm run verify -- versions' },
  { name: 'everywhere', run: 'npm run verify -- everywhere', again: true },
  { name: 'random', run: 'npm run verify -- random', again: true },
  { name: 'coverage', run: 'npm run verify -- coverage', again: true },
  { name: 'storms', run: 'npm run verify -- storms', env: { SPILLWAY_CASES: 'all' } },
  { name: 'faults', run: 'npm run verify -- faults' },
  { name: 'simulation', run: `npm run simulate -- --seed ${seed} --schedules 200000` },
  { name: 'mutants', run: 'npm run verify -- mutants' },
  { name: 'histories', run: `npm run verify -- histories --seed ${seed} --servers all --minutes 20` },
  { name: 'runtimes', run: 'npm run verify -- runtimes' },
  { name: 'proofs', run: 'npm run prove' },
  { name: 'soak', run: 'npm run verify -- soak --minutes 10' },
]

/**
 * Which files each step of the nightly watches, and what is run instead of it where it would take too long. Faults and
 * soak go by the clock on the wall and want a machine that does nothing else: at night only.
 *
 * @type {Record<string, { files: RegExp, run?: string, env?: Record<string, string> }>}
 */
const WATCHED = {
  versions: { files: /^(src\/(http|redis|outgoing|replacing)|test\/versions|examples\/nitro)\// },
  random: { files: /^(src\/(limiter|sql|leases|redis)|lua\/(limiter|leases))\// },
  storms: { files: /^(src\/http|verification\/storms)\//, env: {} },
  simulation: {
    files: /^(src\/(waiting|leases|redis)|lua|verification\/(simulation|histories))\//,
    run: 'npm run simulate -- --seed 1 --schedules 10000',
  },
  mutants: { files: /^(src\/(waiting|leases)|lua|verification)\// },
  histories: {
    files: /^(src\/(waiting|leases|redis)|lua|verification\/histories)\//,
    run: 'npm run verify -- histories --seed 1 --servers single --minutes 1 --processes 4',
  },
  runtimes: { files: /^(package(-lock)?\.json|scripts\/(build|entries).*|(src\/http\/adapters|test\/runtimes)\/.*)$/ },
  proofs: { files: /^(src\/(waiting|leases|sql)|lua|verification)\// },
}

const git = (/** @type {string[]} */ ...args) =>
  execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
    .split('\n')
    .filter(Boolean)

/**
 * The files of the change: of a branch those that differ from where it left main; on main itself those of the commits
 * of the 24 hours before the last one, at most 50. In a clone without a past every file counts as changed.
 */
function changedFiles() {
  const bases = ['origin/main', 'main'].flatMap(name => {
    try {
      return git('merge-base', 'HEAD', name)
    } catch {
      return []
    }
  })
  const [head] = git('rev-parse', 'HEAD')
  const base = bases.find(commit => commit !== head)
  if (base !== undefined) return git('diff', '--name-only', base)
  const [endedAt] = git('log', '-1', '--format=%ct')
  const since = `--since=${Number(endedAt) - 24 * 3600}`
  return [...new Set(git('log', '-m', '--first-parent', '-50', since, '--name-only', '--format='))]
}

/** The steps of the nightly that watch one of these files. @param {string[]} files @returns {Step[]} */
function watching(files) {
  return NIGHTLY.flatMap(step => {
    const { files: watched, run = step.run, env = step.env } = WATCHED[step.name] ?? {}
    return watched && files.some(file => watched.test(file)) ? [{ ...step, run, env }] : []
  })
}

/** Commits of what is measured after which the results say little about it. */
const OLD_RESULTS = 200

/** What is to be said of the age of bench/RESULTS.md, if anything. */
function resultsAge() {
  const [, commit] = /of commit ([0-9a-f]+)/.exec(readFileSync('bench/RESULTS.md', 'utf8')) ?? []
  const unknown = (/** @type {string} */ why) => `bench/RESULTS.md: nobody can tell how old it is: ${why}`
  if (commit === undefined) return unknown('it names no commit')
  try {
    if (git('rev-parse', '--is-shallow-repository')[0] === 'true') return unknown('this clone has no past')
    const count = Number(git('rev-list', '--count', `${commit}..HEAD`, '--', 'src', 'lua')[0])
    if (count <= OLD_RESULTS) return undefined
    return `bench/RESULTS.md is ${count} commits of src/ and lua/ old: npm run bench, on a machine that does nothing else`
  } catch {
    return unknown(`git does not know its commit ${commit}`)
  }
}

const startedAt = Date.now()
const folder = mkdtempSync(join(tmpdir(), 'spillway-gate-'))
/** @type {import('node:child_process').ChildProcess | undefined} */
let running
/** @param {NodeJS.Signals} signal */
const stop = signal => {
  // With all that it has started.
  if (running?.pid !== undefined) process.kill(-running.pid, signal)
}
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
  process.once(signal, () => {
    stop(signal)
    rmSync(folder, { recursive: true, force: true })
    process.exit(1)
  })
}

/**
 * @param {Step} step @param {number} endAt by when it must have ended
 * @returns {Promise<{ seconds: number, failure?: string, passed: number, failed: number, skipped: number }>}
 */
async function runStep({ name, run, env }, endAt) {
  console.log(`\n=== ${name}: ${run}`)
  const from = Date.now()
  const tally = join(folder, name)
  const [program, ...args] = run.split(' ')
  const failure = await new Promise(resolve => {
    if (from >= endAt) return resolve('not run: no time left')
    const child = spawn(program, args, {
      stdio: ['ignore', 'inherit', 'inherit'],
      detached: true,
      env: { ...process.env, ...env, SPILLWAY_TALLY: tally },
    })
    running = child
    let late = false
    const end = () => {
      late = true
      stop('SIGKILL')
    }
    const timer = Number.isFinite(endAt) ? setTimeout(end, endAt - from) : undefined
    child.on('error', error => resolve(String(error)))
    child.on('close', (code, signal) => {
      clearTimeout(timer)
      running = undefined
      resolve(
        late ? 'FAILED: not within its time' : code === 0 ? undefined : `FAILED: ${signal ?? `exit code ${code}`}`,
      )
    })
  })
  const seconds = Math.round((Date.now() - from) / 1000)
  console.log(`=== ${name}: ${failure ?? 'passed'} after ${seconds} s`)
  const counts = { passed: 0, failed: 0, skipped: 0 }
  for (const line of existsSync(tally) ? readFileSync(tally, 'utf8').split('\n').filter(Boolean) : []) {
    const added = JSON.parse(line)
    counts.passed += added.passed
    counts.failed += added.failed
    counts.skipped += added.skipped
  }
  return { seconds, failure, ...counts }
}

/** @param {string[]} args */
async function main(args) {
  const nightly = args[0] === 'nightly'
  const changed = args.includes('--changed')
  const named = args.slice(1).filter(arg => arg !== '--changed')
  const all = nightly ? NIGHTLY : GATE
  const unknown = named.filter(name => !all.some(step => step.name === name))
  if (unknown.length > 0) {
    console.error(`no step is called ${unknown.join(', ')}: expected ${all.map(({ name }) => name).join(', ')}`)
    return false
  }
  const more = changed ? watching(changedFiles()) : []
  // What is done more thoroughly anyway need not be done twice.
  const steps = all.filter(({ name }) =>
    named.length > 0 ? named.includes(name) : !more.some(step => step.name === name),
  )
  const endAt = changed ? startedAt + MINUTES * 60_000 : Number.POSITIVE_INFINITY
  const rows = []
  const sum = { passed: 0, failed: 0, skipped: 0 }
  for (const step of [...steps, ...more]) {
    const { seconds, failure, ...counts } = await runStep(step, endAt)
    rows.push(`${step.name.padEnd(12)}${`${seconds} s`.padStart(7)}  ${failure ?? 'passed'}   ${step.run}`)
    // Whatever has failed counts at least once.
    sum.failed += failure === undefined ? counts.failed : Math.max(counts.failed, 1)
    if (step.again) continue
    sum.passed += counts.passed
    sum.skipped += counts.skipped
  }
  const minutes = ((Date.now() - startedAt) / 60_000).toFixed(1)
  console.log(`\n${rows.join('\n')}\n\n${steps.length + more.length} steps in ${minutes} minutes`)
  const old = resultsAge()
  if (old !== undefined) console.log(old)
  console.log(`${sum.passed} passed, ${sum.failed} failed${sum.skipped > 0 ? `, ${sum.skipped} skipped` : ''}`)
  return sum.failed === 0
}

try {
  process.exitCode = (await main(process.argv.slice(2))) ? 0 : 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}
