#!/usr/bin/env node
// Builds dist/ from src/: ES modules in dist/esm, CommonJS in dist/cjs, types in both. Does nothing when dist/ was built from
// exactly these sources, so that `npm ci` and `npm test` need not wait; `--force` builds all the same.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const dist = join(root, 'dist')
const require = createRequire(import.meta.url)

// Not in the tarball: see "files" in package.json.
const STAMP = '.built-from'

/** What a build depends on: the sources, their settings, the compiler and this script. */
function fingerprint() {
  const settings = ['tsconfig.json', 'tsconfig.build.json', 'tsconfig.cjs.json', 'package.json', 'scripts/build.mjs']
  const sources = readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => relative(root, join(entry.parentPath, entry.name)))
    .sort()
  const hash = createHash('sha256').update(require('typescript/package.json').version)
  for (const file of [...settings, ...sources]) hash.update(`\0${file}\0`).update(readFileSync(join(root, file)))
  return hash.digest('hex')
}

/**
 * @param {string} project
 * @param {string} outDir
 * @returns {Promise<boolean>} false when the compiler complained, which it has then printed
 */
function compile(project, outDir) {
  const args = [require.resolve('typescript/bin/tsc'), '-p', project, '--outDir', outDir]
  const tsc = spawn(process.execPath, args, { cwd: root, stdio: 'inherit' })
  return new Promise(resolve => tsc.once('exit', code => resolve(code === 0)))
}

/**
 * Puts one folder in the place of another. Someone else may be building too: the later one wins.
 * @param {string} old
 * @param {string} fresh
 */
function replace(old, fresh) {
  for (let tries = 0; ; tries++) {
    try {
      rmSync(old, { recursive: true, force: true })
      renameSync(fresh, old)
      return
    } catch (error) {
      if (tries === 10) throw error
    }
  }
}

async function build() {
  if (spawnSync(process.execPath, [join(root, 'scripts/embed-lua.mjs')], { stdio: 'inherit' }).status !== 0)
    return false
  const stamp = join(dist, STAMP)
  const print = fingerprint()
  const fresh = existsSync(stamp) && readFileSync(stamp, 'utf8') === print
  if (fresh && !process.argv.includes('--force')) return true

  // Built aside and then put in place whole: nothing stale stays, and whoever runs dist/ meanwhile finds all of it or none.
  const fresher = `${dist}.${process.pid}`
  try {
    mkdirSync(fresher)
    const halves = await Promise.all([
      compile('tsconfig.build.json', join(fresher, 'esm')),
      compile('tsconfig.cjs.json', join(fresher, 'cjs')),
    ])
    if (halves.includes(false)) return false
    writeFileSync(join(fresher, 'cjs/package.json'), '{ "type": "commonjs" }\n')
    writeFileSync(join(fresher, STAMP), print)
    chmodSync(join(fresher, 'esm/cli/main.js'), 0o755)
    replace(dist, fresher)
    return true
  } finally {
    rmSync(fresher, { recursive: true, force: true })
  }
}

if (!(await build())) {
  console.error('build: the compiler found errors (above); dist/ is as it was')
  process.exitCode = 1
}
