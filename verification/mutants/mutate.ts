// npm run verify -- mutants bucket
// Plays schedules with one rule of the code left out or bent, until a promise is broken: what the simulation is worth.
// Those of test-mutants.ts are for a single test each, which must fail.
import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { MUTANTS, type Mutant } from './mutants.js'
import { TEST_MUTANTS, type TestMutant } from './test-mutants.js'

const { values, positionals } = parseArgs({
  options: { schedules: { type: 'string', default: '3000' } },
  allowPositionals: true,
})
const project = resolve(import.meta.dirname, '../..')

/** What simulations and tests consist of. */
const PARTS = 'src lua scripts test verification package.json tsconfig.json jest.config.js'.split(' ')
const PLAY = ['verification/simulation/simulate.mjs', '--seed', '1', '--schedules', values.schedules, '--first']
const JEST = ['node_modules/jest/bin/jest.js', '--selectProjects', 'test', '--runTestsByPath']
/** Tests that fail here do not count as those of this run: scripts/tally-reporter.mjs. */
const { SPILLWAY_TALLY: _, ...env } = process.env

type Run = (...args: string[]) => Promise<{ failed: boolean; text: string }>

/** Calls `work` in a copy of the project with the mutant. */
async function withMutant<T>({ file, text, instead }: Mutant, work: (run: Run) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-mutant-'))
  const run: Run = (...args) =>
    new Promise(done => {
      execFile(process.execPath, args, { cwd: folder, env, maxBuffer: 2 ** 26 }, (error, stdout, stderr) => {
        done({ failed: error !== null, text: `${stdout}${stderr}` })
      })
    })
  try {
    for (const name of PARTS) {
      const filter = (path: string) => basename(path) !== 'node_modules'
      cpSync(join(project, name), join(folder, name), { recursive: true, filter })
    }
    symlinkSync(join(project, 'node_modules'), join(folder, 'node_modules'))
    const parts = readFileSync(join(folder, file), 'utf8').split(text)
    if (parts.length !== 2) throw new Error(`${file} has the text ${parts.length - 1} times: expected once`)
    writeFileSync(join(folder, file), parts.join(instead))
    const embedded = await run('--import', 'tsx', 'scripts/embed-lua.ts', folder)
    if (embedded.failed) throw new Error(embedded.text)
    return await work(run)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** The first promise that schedules with the mutant have broken, and the seed. */
async function inSchedules(mutant: Mutant): Promise<string> {
  const { uses } = mutant
  const played = await withMutant(mutant, run => run(...PLAY, ...(uses === undefined ? [] : ['--uses', uses])))
  const [, seed, rule] = /^seed (\d+): ([^:]+):/m.exec(played.text) ?? []
  if (rule === undefined) throw new Error(played.text.trim().split('\n').at(-1))
  const found = `${rule}, seed ${seed}`
  if (mutant.rule === undefined ? rule === 'an error that nobody caught' : rule !== mutant.rule) throw new Error(found)
  return found
}

/** The test that failed first with the mutant. */
async function inTests(mutant: TestMutant): Promise<string> {
  const { test, title } = mutant
  const { text } = await withMutant(mutant, run => run(...JEST, test, ...(title === undefined ? [] : ['-t', title])))
  if (!/^Tests: /m.test(text)) throw new Error(text)
  const [, failed] = /^ {2}● (.+)$/m.exec(text) ?? []
  if (failed === undefined) throw new Error(`${test} passes`)
  return failed
}

/** Of these the chosen ones are told, each by what found it. */
async function survivors<M extends Mutant>(mutants: readonly M[], found: (mutant: M) => Promise<string>) {
  const chosen = mutants.filter(({ name }) => positionals.every(part => name.includes(part)))
  let survived = 0
  for (const mutant of chosen) {
    const said = await found(mutant).then(
      found => `✓ ${mutant.name}: ${found}`,
      (error: Error) => {
        survived++
        return `✗ ${mutant.name}: ${error.message}`
      },
    )
    console.log(said)
  }
  return { chosen: chosen.length, survived }
}

const sums = [await survivors(MUTANTS, inSchedules), await survivors(TEST_MUTANTS, inTests)]
const [chosen, survived] = (['chosen', 'survived'] as const).map(key => sums[0][key] + sums[1][key])
if (chosen === 0) {
  console.error(`no mutant is called "${positionals.join(' ')}": expected a part of a name, like "fixed window"`)
} else {
  console.log(`${chosen} mutants, ${survived} not found`)
}
process.exitCode = chosen > 0 && survived === 0 ? 0 : 1
