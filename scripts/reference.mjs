#!/usr/bin/env node
// Writes docs/reference.md from the docstrings of every entry point. With --check it writes nothing and fails when the page is stale
// or when something public has no docstring.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const entries = Object.values(JSON.parse(readFileSync(join(root, 'scripts/entries.json'), 'utf8')))
const page = join(root, 'docs/reference.md')
const HEAD = `# Reference

Every export with its options, defaults, units and errors. Written from the docstrings by \`npm run reference\`: change those, not this page.
Durations are whole ms or text like \`'1m30s'\`. A mistake in options throws \`PolicyError\` when the object is built.
`

/** Sections that repeat what a signature says: left out as a whole. */
const REPEATED = /^(Parameters|Returns|Inherited from|Implementation of|Overrides|Type Parameters|Get Signature)$/
/** Titles of groups: left out, and of the first kind the list of names below. */
const RELATED = /^(Extends|Extended by|Implements|Implemented by)$/
const GROUP = /^(Properties|Methods|Constructors|Accessors|Indexable|Type Declaration|Type Literal)$/

/**
 * A heading and the lines up to the next one.
 * @typedef {{ level: number, title: string, anchor: string, lines: string[] }} Section
 */

/** Where users import a module of the reference from. @param {string} file */
function entryOf(file) {
  const name = file.replace(/\.md$/, '').replace(/^adapters\//, '')
  return name === 'index' ? 'spillway' : `spillway/${name.replace(/\/index$/, '')}`
}

/** The anchor of a heading among those of its page, as typedoc numbers them. @param {string} title @param {Map<string, number>} seen */
function anchorOf(title, seen) {
  const slug = title
    .toLowerCase()
    .replace(/[^\w -]/g, '')
    .replaceAll(' ', '-')
  const before = seen.get(slug)
  seen.set(slug, before === undefined ? 0 : before + 1)
  return before === undefined ? slug : `${slug}-${before + 1}`
}

/** @param {string} text @returns {Section[]} */
function sectionsOf(text) {
  const seen = new Map()
  /** @type {Section[]} */
  const sections = [{ level: 0, title: '', anchor: '', lines: [] }]
  let fenced = false
  for (const line of text.split('\n')) {
    if (line.startsWith('```')) fenced = !fenced
    const [, marks = '', title = ''] = (!fenced && /^(#+) (.+)$/.exec(line)) || []
    if (marks !== '') sections.push({ level: marks.length, title, anchor: anchorOf(title, seen), lines: [] })
    else if (line !== '***') sections[sections.length - 1].lines.push(line)
  }
  return sections
}

/** One module as a part of the page, without what its signatures say already. @param {string} file @param {Section[]} sections */
function partOf(file, sections) {
  const lines = [`## ${entryOf(file)}`, '']
  let inError = false
  for (const { level, title, anchor, lines: own } of sections) {
    const name = title.replaceAll('\\', '')
    if (level === 2) inError = name.endsWith('Error')
    if (REPEATED.test(name) || (inError && name === 'Constructor')) continue
    if (RELATED.test(name)) lines.push(...own.filter(line => !line.startsWith('- ')))
    else if (level === 0 || GROUP.test(name)) lines.push(...own)
    else {
      lines.push(`<a id="${idOf(file, anchor)}"></a>`, '')
      lines.push(`${'#'.repeat(Math.min(4, level === 2 ? 3 : 4))} ${title}`, ...own)
    }
  }
  const links = /\]\(((?:\.\.\/)*[\w./-]+\.md)?(?:#([\w-]+))?\)/g
  return lines.join('\n').replace(links, (link, to, anchor) => {
    if (to === undefined && anchor === undefined) return link
    const target = to === undefined ? file : posix.join(posix.dirname(file), to)
    return anchor === undefined ? `](#${entryOf(target).replace('/', '')})` : `](#${idOf(target, anchor)})`
  })
}

/** @param {string} file @param {string} anchor */
function idOf(file, anchor) {
  return `${entryOf(file).replace('/', '-')}-${anchor}`
}

/** The exports of a module, as a list of links. @param {string} file @param {Section[]} sections */
function contentsOf(file, sections) {
  const names = sections.filter(({ level }) => level === 2)
  const links = names.map(({ title, anchor }) => `[${title.replace('()', '')}](#${idOf(file, anchor)})`)
  return `- \`${entryOf(file)}\`: ${links.join(', ')}`
}

/** The types of Express with their default arguments, as nobody writes them. @param {string} text */
function withPlainTypes(text) {
  return text
    .replace(/`Request`\\<`ParamsDictionary`(?:, (?:`\w+`|`Record`\\<`string`, `any`\\>))*\\>/g, '`Request`')
    .replaceAll('Request\\<ParamsDictionary, any, any, ParsedQs, Record\\<string, any\\>\\>', '`Request`')
    .replaceAll('Response\\<any, Record\\<string, any\\>\\>', '`Response`')
    .replace(/`Response`\\<`any`, `Record`\\<`string`, `any`\\>(?:, `\w+`)?\\>/g, '`Response`')
}

/** Takes out anchors that nothing links to, and fails where a link leads nowhere. @param {string} text */
function withNeededAnchors(text) {
  const wanted = new Set([...text.matchAll(/\]\(#([\w-]+)\)/g)].map(([, id]) => id))
  const needed = text.replace(/<a id="([\w-]+)"><\/a>(\n\n| )?/g, (anchor, id) => (wanted.has(id) ? anchor : ''))
  const given = new Set([...needed.matchAll(/<a id="([\w-]+)">/g)].map(([, id]) => id))
  const dead = [...wanted].filter(id => !given.has(id))
  if (dead.length > 0) throw new Error(`links lead nowhere: ${dead.join(', ')}`)
  return needed
}

const folder = mkdtempSync(join(tmpdir(), 'spillway-reference-'))
try {
  const typedoc = join(root, 'node_modules/typedoc/bin/typedoc')
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    [typedoc, '--options', join(root, 'scripts/typedoc.json'), '--out', folder, ...entries],
    {
      cwd: root,
      encoding: 'utf8',
    },
  )
  const warnings = `${stdout}${stderr}`.split('\n').filter(line => /\[(warning|error)\]/.test(line))
  if (status !== 0 || warnings.length > 0) throw new Error(`typedoc is not content:\n${warnings.join('\n')}`)
  const modules = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.md') && name !== 'README.md')
    .sort((a, b) => Number(b === 'index.md') - Number(a === 'index.md') || a.localeCompare(b))
    .map(file => /** @type {const} */ ([file, sectionsOf(readFileSync(join(folder, file), 'utf8'))]))
  const contents = modules.map(([file, sections]) => contentsOf(file, sections))
  const parts = modules.map(([file, sections]) => partOf(file, sections))
  const whole = `${[HEAD, ...contents, '', ...parts].join('\n')}\n`
  const text = withPlainTypes(withNeededAnchors(whole)).replace(/\n{3,}/g, '\n\n')
  if (!process.argv.includes('--check')) writeFileSync(page, text)
  else if (readFileSync(page, 'utf8') !== text) throw new Error('docs/reference.md is stale: run `npm run reference`')
} catch (error) {
  console.error(`reference: ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}
