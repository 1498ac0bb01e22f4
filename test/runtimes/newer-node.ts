// Runs a program with a Node that has SQLite: this one, or else one of those that the package is tested on.
import { spawnSync } from 'node:child_process'
import { runtimes } from './runtimes.js'

const program =
  process.getBuiltinModule('node:sqlite') === undefined
    ? runtimes().find(({ title }) => title.startsWith('Node 22'))!.command[0]
    : process.execPath
const { status } = spawnSync(program, ['--disable-warning=ExperimentalWarning', ...process.argv.slice(2)], {
  stdio: 'inherit',
})
process.exitCode = status ?? 1
