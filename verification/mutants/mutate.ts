// npm run verify -- mutants bucket
// Plays schedules with one rule of the code left out or bent, until a promise is broken: what the simulation is worth.
import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { MUTANTS, type Mutant } from './mutants.js'

const { values, positionals } = parseArgs({
  options: { schedules: { type: 'string', default: '3000' } },
  allowPositionals: true,
})
const project = resolve(import.meta.dirname, '../..')

/** What a simulation consists of. */
const PARTS =
  'src lua scripts verification/histories verification/simulation test/support package.json tsconfig.json'.split(' ')
const PLAY = ['verification/simulation/simulate.mjs', '--seed', '1', '--schedules', values.schedules, '--first']

const run = (folder: string, ...args: string[]) =>
  new Promise<{ failed: boolean; text: string }>(done => {
    execFile(process.execPath, args, { cwd: folder, maxBuffer: 2 ** 26 }, (error, stdout, stderr) => {
      done({ failed: error !== null, text: `${stdout}${stderr}` })
    })
  })

/** What the schedules with a mutant have found: the first broken promise, and the seed. */
async function found({ file, text, instead, uses }: Mutant): Promise<{ rule?: string; seed?: string; said: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-mutant-'))
  try {
    for (const name of PARTS) cpSync(join(project, name), join(folder, name), { recursive: true })
    symlinkSync(join(project, 'node_modules'), join(folder, 'node_modules'))
    const parts = readFileSync(join(folder, file), 'utf8').split(text)
    if (parts.length !== 2) return { said: `${file} has the text ${parts.length - 1} times: expected once` }
    writeFileSync(join(folder, file), parts.join(instead))
    const embedded = await run(folder, '--import', 'tsx', 'scripts/embed-lua.ts', folder)
    if (embedded.failed) return { said: embedded.text }
    const played = await run(folder, ...PLAY, ...(uses === undefined ? [] : ['--uses', uses]))
    const [, seed, rule] = /^seed (\d+): ([^:]+):/m.exec(played.text) ?? []
    return { rule, seed, said: played.text }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const chosen = MUTANTS.filter(({ name }) => positionals.every(part => name.includes(part)))
if (chosen.length === 0) {
  console.error(`no mutant is called "${positionals.join(' ')}": expected a part of a name, like "fixed window"`)
  process.exit(1)
}
let survivors = 0
for (const mutant of chosen) {
  const { rule, seed, said } = await found(mutant)
  const isFound =
    rule !== undefined && (mutant.rule === undefined ? rule !== 'an error that nobody caught' : rule === mutant.rule)
  if (!isFound) survivors++
  console.log(
    `${isFound ? '✓' : '✗'} ${mutant.name}: ${rule === undefined ? said.trim().split('\n').at(-1) : `${rule}, seed ${seed}`}`,
  )
}
console.log(`${chosen.length} mutants, ${survivors} not found`)
process.exitCode = survivors === 0 ? 0 : 1
