#!/usr/bin/env node
// Whether the package as it would be published resolves for every module system and type checker. Each entry point is
// named: package.json has a pattern for them.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

const entries = JSON.parse(readFileSync(new URL('entries.json', import.meta.url), 'utf8'))
const names = Object.keys(entries).filter(name => name !== 'index')
const checks = [
  ['publint', '--strict'],
  ['attw', '--pack', '.', '--include-entrypoints', ...names],
]
for (const [program, ...args] of checks) {
  if (spawnSync('npx', [program, ...args], { stdio: 'inherit' }).status !== 0) process.exitCode = 1
}
