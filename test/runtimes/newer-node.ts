// Runs a program with a Node that has SQLite: this one, or else one of those that the package is tested on.
import { spawnSync } from 'node:child_process'
import { nodeWithSqlite } from './runtimes.js'

const args = ['--disable-warning=ExperimentalWarning', ...process.argv.slice(2)]
const { status } = spawnSync(nodeWithSqlite(), args, { stdio: 'inherit' })
process.exitCode = status ?? 1
