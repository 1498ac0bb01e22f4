// node --import tsx verification/mutants/mutate-tests.ts expired
// Runs single tests with one line of the code bent: what they are worth. `--in` names another checkout than this one.
import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { TEST_MUTANTS, type TestMutant } from './test-mutants.js'

const { values, positionals } = parseArgs({
  options: { in: { type: 'string', default: resolve(import.meta.dirname, '../..') } },
  allowPositionals: true,
})

/** What tests consist of. */
const PARTS = 'src lua scripts test verification package.json tsconfig.json jest.config.js'.split(' ')

/** The test that failed first with a mutant; undefined if none did. */
async function found({ file, text, instead, test, title = '' }: TestMutant): Promise<string | undefined> {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-mutant-'))
  try {
    for (const name of PARTS) cpSync(join(values.in, name), join(folder, name), { recursive: true })
    symlinkSync(join(values.in, 'node_modules'), join(folder, 'node_modules'))
    const parts = readFileSync(join(folder, file), 'utf8').split(text)
    if (parts.length !== 2) throw new Error(`${file} has the text ${parts.length - 1} times: expected once`)
    writeFileSync(join(folder, file), parts.join(instead))
    const jest = ['node_modules/jest/bin/jest.js', '--selectProjects', 'test', '-t', title, '--runTestsByPath', test]
    const said = await new Promise<string>(done => {
      execFile(process.execPath, jest, { cwd: folder, maxBuffer: 2 ** 26 }, (_, stdout, stderr) =>
        done(stdout + stderr),
      )
    })
    if (!/^Tests: /m.test(said)) throw new Error(said)
    return /^ {2}● (.+)$/m.exec(said)?.[1]
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const chosen = TEST_MUTANTS.filter(({ name }) => positionals.every(part => name.includes(part)))
let survivors = 0
for (const mutant of chosen) {
  const failed = await found(mutant)
  if (failed === undefined) survivors++
  console.log(failed === undefined ? `✗ ${mutant.name}: ${mutant.test} passes` : `✓ ${mutant.name}: ${failed}`)
}
console.log(`${chosen.length} mutants, ${survivors} not found`)
process.exitCode = survivors === 0 && chosen.length > 0 ? 0 : 1
