#!/usr/bin/env node
// Writes docs/reference.md from the docstrings of every entry point. With --check it writes nothing and fails when the page is stale
// or when something public has no docstring.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const page = join(root, 'docs/reference.md')
const HEAD = `# Reference

Every export with its options, defaults, units and errors. Written from the docstrings by \`npm run reference\`: change those, not this page.
`

/** Where users import a module of the reference from. @param {string} file */
function entryOf(file) {
  const name = file.replace(/\.md$/, '').replace(/^adapters\//, '')
  return name === 'index' ? 'spillway' : `spillway/${name.replace(/\/index$/, '')}`
}

/** One page of a module, as a part of the whole: headings go down by one, links between modules become links within the page. */
/** @param {string} folder @param {string} file */
function partOf(folder, file) {
  const text = readFileSync(join(folder, file), 'utf8')
    .replace(/^# .*\n/m, '')
    .replace(/^(#+ )/gm, '#$1')
    .replace(/\]\((?:\.\.\/)*[\w./-]+\.md(#[^)]*)?\)/g, (_, anchor) => `](${anchor ?? '#reference'})`)
    .replace(/^\*\*\*\n+/gm, '')
  return `## ${entryOf(file)}\n\n${text.trim()}\n`
}

const folder = mkdtempSync(join(tmpdir(), 'spillway-reference-'))
try {
  const typedoc = join(root, 'node_modules/typedoc/bin/typedoc')
  const { stdout, stderr, status } = spawnSync(process.execPath, [typedoc, '--out', folder], {
    cwd: root,
    encoding: 'utf8',
  })
  const warnings = `${stdout}${stderr}`.split('\n').filter(line => /\[(warning|error)\]/.test(line))
  if (status !== 0 || (warnings.length > 0 && process.argv.includes('--check'))) {
    throw new Error(`typedoc is not content:\n${warnings.join('\n')}`)
  }
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.md') && name !== 'README.md')
    .sort((a, b) => Number(b === 'index.md') - Number(a === 'index.md') || a.localeCompare(b))
  const text = `${[HEAD, ...files.map(file => partOf(folder, file))].join('\n').replace(/\n{3,}/g, '\n\n')}`
  if (!process.argv.includes('--check')) writeFileSync(page, text)
  else if (readFileSync(page, 'utf8') !== text) throw new Error('docs/reference.md is stale: run `npm run reference`')
} catch (error) {
  console.error(`reference: ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}
