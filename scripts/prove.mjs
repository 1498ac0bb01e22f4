#!/usr/bin/env node
// Checks every model in verification/proofs/*/ with SPIN. Each folder holds a table, checks.txt: the configurations
// that must hold, and the mutants that must not. Prints the states explored for each and stops with exit code 1 at the
// first counterexample, mutant that survives, or incomplete search.
//
//   npm run prove                      everything
//   npm run prove -- waiting queue     these folders
//   npm run prove -- waiting/rate      the configurations and mutants whose name starts so
import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

/**
 * One row of a table. `breaks` names the property that a mutant must break; a configuration has none.
 *
 * @typedef {{ folder: string, name: string, model: string, search: 'safety' | 'liveness', parameters: string[],
 *   breaks?: string }} Job
 * @typedef {{ violated: string, kind: 'ltl' | 'assertion', story: string }} Counterexample
 * @typedef {{ states?: number, failure?: string, counterexample?: Counterexample }} Outcome
 */

const proofs = resolve(import.meta.dirname, '../verification/proofs')
const MEMORY_MB = 3500
const MOST_STEPS = 2_000_000
/** What is checked: the parameters of one row, and the model. */
const MODEL = 'check.pml'

/**
 * @param {string} program @param {string[]} args @param {string} cwd
 * @returns {Promise<{ code: number, text: string }>}
 */
const run = (program, args, cwd) =>
  new Promise(done => {
    execFile(program, args, { cwd, encoding: 'utf8', maxBuffer: 2 ** 28 }, (error, stdout, stderr) => {
      done({ code: error ? (typeof error.code === 'number' ? error.code : 1) : 0, text: `${stdout}${stderr}` })
    })
  })

/**
 * Explores all states of one configuration.
 *
 * @param {Job} job @param {string} cwd
 * @returns {Promise<Outcome>}
 */
async function explore(job, cwd) {
  cpSync(join(proofs, job.folder), cwd, { recursive: true })
  const parameters = job.parameters.map(parameter => `#define ${parameter.replace('=', ' ')}\n`)
  writeFileSync(join(cwd, MODEL), `${parameters.join('')}#include "${job.model}.pml"\n`)
  const safety = job.search === 'safety'

  const generated = await run('spin', ['-a', MODEL], cwd)
  if (generated.code !== 0 || !existsSync(join(cwd, 'pan.c')))
    return { failure: `spin refuses the model:\n${generated.text}` }
  const forCheck = safety ? ['-DSAFETY', '-DNOCLAIM'] : []
  // Compiling costs more than most searches, so little is optimised.
  const options = [job.breaks ? '-O0' : '-O1', '-w', `-DMEMLIM=${MEMORY_MB}`, '-DVECTORSZ=2048', ...forCheck]
  const compiled = await run('gcc', [...options, '-o', 'pan', 'pan.c'], cwd)
  if (compiled.code !== 0) return { failure: `gcc refuses what spin made:\n${compiled.text}` }
  // Mutants are found early, so a small table is enough.
  const table = job.breaks ? '-w20' : '-w23'
  const { text } = await run('./pan', [...(safety ? [] : ['-a']), `-m${MOST_STEPS}`, table], cwd)

  const states = Number(/(\d+) states, stored/.exec(text)?.[1] ?? 0)
  const errors = Number(/errors: (\d+)/.exec(text)?.[1] ?? -1)
  const incomplete =
    /max search depth too small|out of memory|Search not completed|VECTORSZ|hash conflicts exceeded/i.exec(text)
  if (errors > 0) return { states, counterexample: await readCounterexample(job, cwd, text) }
  if (errors < 0 || incomplete) return { failure: `the search is not complete:\n${text}` }
  return { states }
}

/**
 * Replays the schedule that SPIN found, and names the property by the comment that stands beside its assertion.
 *
 * @param {Job} job @param {string} cwd @param {string} output what the checker printed
 * @returns {Promise<Counterexample>}
 */
async function readCounterexample(job, cwd, output) {
  const replay = await run('spin', ['-t', '-T', MODEL], cwd)
  const [told = ''] = replay.text.split(/^(?:spin: trail ends|#processes)/m)
  const story = told.split('\n').filter(line => !/^(ltl |starting claim|Never claim)/.test(line.trim()))
  return { ...violation(cwd, `${job.model}.pml`, output, replay.text), story: story.join('\n').trimEnd() }
}

/**
 * @param {string} cwd @param {string} model @param {string} output @param {string} replay
 * @returns {Pick<Counterexample, 'violated' | 'kind'>}
 */
function violation(cwd, model, output, replay) {
  if (/acceptance cycle/.test(output)) {
    const claim = /^ltl (\w+)/m.exec(readFileSync(join(cwd, model), 'utf8'))?.[1]
    return { kind: 'ltl', violated: claim ?? 'a formula without a name' }
  }
  const [, file, lineNumber] = /spin: ([\w.]+):(\d+), Error: assertion violated/.exec(replay) ?? []
  const line = file ? readFileSync(join(cwd, file), 'utf8').split('\n')[Number(lineNumber) - 1] : ''
  return {
    kind: 'assertion',
    violated: /\/\* (\w+) \*\//.exec(line)?.[1] ?? /pan:1: .*/.exec(output)?.[0] ?? 'unknown',
  }
}

/**
 * The rows of one table. In the model of a mutant MUTANT_ITS_NAME is 1, and that of every other mutant 0.
 *
 * @param {string} folder
 * @returns {Job[]}
 */
function readTable(folder) {
  const lines = readFileSync(join(proofs, folder, 'checks.txt'), 'utf8')
    .replace(/ *#.*/g, '')
    .split('\n')
  const rows = lines.filter(line => /^(holds|breaks) /.test(line)).map(line => line.trim().split(/ +/))
  const odd = lines.find(line => !/^(holds( +\S+){3,}|breaks( +\S+){4,}|)$/.test(line.trimEnd()))
  if (odd)
    throw new Error(
      `verification/proofs/${folder}/checks.txt: expected "holds <name> <model> <search> …" or "breaks ` +
        `<property> <name> …", given "${odd}"`,
    )
  const mutants = new Set(rows.filter(([kind]) => kind === 'breaks').map(([, , name]) => name))
  return rows.map(([kind, ...cells]) => {
    const breaks = kind === 'breaks' ? cells.shift() : undefined
    const [name, model, search, ...own] = cells
    const rules = Array.from(mutants, one => `${macroOf(one)}=${breaks && one === name ? 1 : 0}`)
    return {
      folder,
      name: breaks ? `${model}/${name}` : name,
      model,
      search: search === 'safety' ? search : 'liveness',
      parameters: [...own.map(parameter => (parameter.includes('=') ? parameter : `${parameter}=1`)), ...rules],
      breaks,
    }
  })
}

const macroOf = (/** @type {string} */ mutant) => `MUTANT_${mutant.toUpperCase().replaceAll('-', '_')}`

/** @returns {Job[]} */
const readJobs = (/** @type {string[]} */ wanted) =>
  readdirSync(proofs)
    .filter(folder => existsSync(join(proofs, folder, 'checks.txt')))
    .flatMap(readTable)
    .filter(
      ({ folder, name }) =>
        wanted.length === 0 || wanted.some(one => folder === one || `${folder}/${name}`.startsWith(one)),
    )

/**
 * Runs one job, prints its line, and tells whether it went as it must. What went wrong stays in its folder, to be
 * looked at.
 */
async function judge(/** @type {Job} */ job) {
  const cwd = mkdtempSync(join(tmpdir(), 'spillway-proof-'))
  const startedAt = performance.now()
  const { states, failure, counterexample } = await explore(job, cwd)
  const took = `${((performance.now() - startedAt) / 1000).toFixed(1)} s`
  const title = `${job.breaks ? 'mutant ' : ''}${job.folder}/${job.name}`
  if (failure) return fail(`${title}: ${failure}`)
  if (counterexample?.violated !== job.breaks) {
    if (!counterexample) return fail(`${title}: SURVIVES, ${states} states; it must break ${job.breaks}`)
    const { violated, story } = counterexample
    const wrong = job.breaks
      ? `must break ${job.breaks}, but breaks ${violated}`
      : `COUNTEREXAMPLE, it breaks ${violated}`
    return fail(`${title}: ${wrong}:\n${story}\nTo see every step: cd ${cwd} && spin -t -p -g ${MODEL}`)
  }
  rmSync(cwd, { recursive: true, force: true })
  return pass(
    counterexample
      ? `${title}: caught (${counterexample.kind} ${counterexample.violated} violated), ${states} states, ${took}`
      : `${title}: holds, ${states} states, ${job.search}, ${took}`,
  )
}

const pass = (/** @type {string} */ line) => {
  console.log(line)
  return true
}
const fail = (/** @type {string} */ line) => {
  console.error(line)
  return false
}

async function main() {
  const jobs = readJobs(process.argv.slice(2))
  if (jobs.length === 0)
    return fail(`no configuration or mutant is called ${process.argv[2] ?? 'anything'} in verification/proofs/`)
  const startedAt = performance.now()
  const counted = { configurations: 0, mutants: 0 }
  let failed = false
  const lane = async () => {
    for (let job = jobs.shift(); job && !failed; job = jobs.shift()) {
      if (!(await judge(job))) failed = true
      counted[job.breaks ? 'mutants' : 'configurations']++
    }
  }
  await Promise.all(Array.from({ length: Math.min(4, availableParallelism()) }, lane))
  if (failed) return false
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(0)
  return pass(`${counted.configurations} configurations hold, ${counted.mutants} mutants are caught, in ${seconds} s`)
}

process.exitCode = (await main()) ? 0 : 1
