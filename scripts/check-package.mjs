#!/usr/bin/env node
// Whether the package as it would be published resolves for every module system and type checker. Each entry point is named: package.json has
// a pattern for them.
import { spawnSync } from 'node:child_process'
import { ENTRIES } from './entries.mjs'

const names = Object.keys(ENTRIES).filter(name => name !== 'index')
const checks = [
  ['publint', '--strict'],
  ['attw', '--pack', '.', '--include-entrypoints', ...names],
]
for (const [program, ...args] of checks) {
  if (spawnSync('npx', [program, ...args], { stdio: 'inherit' }).status !== 0) process.exitCode = 1
}
