#!/usr/bin/env node
// Writes what coding agents read of the package, from the documents: llms.txt (all pages), AGENTS.md (for a project that
// uses spillway: copy it, or include it) and skills/spillway/SKILL.md (the same as a skill). With --check nothing is
// written; exit code 1 and one line for each file that is stale.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(fileURLToPath(import.meta.url), '../..')
const BASE = 'https://github.com/spillway/spillway/blob/main/'
/** @param {string} path */
const read = path => readFileSync(join(root, path), 'utf8')
const { description } = JSON.parse(read('package.json'))

/** Links that lead from anywhere. @param {string} text */
const absolute = text =>
  text.replace(/\]\((?!\w+:)(#?)([^)]*)\)/g, (_, anchor, path) =>
    anchor === '#' ? `](${BASE}docs/running.md#${path})` : `](${BASE}docs/${path})`,
  )

/** What a page says of itself: its title and its first sentence, if it begins with one. @param {string} path */
function entryOf(path) {
  const text = read(path)
  const title = /^# (.+)$/m.exec(text)?.[1]
  const sentences = text
    .replace(/^```[\s\S]*?^```$/gm, '')
    .split(/\n\n+/)
    .filter(part => /^[A-Z`[*]/.test(part) && !part.startsWith('[!['))
    .map(part => part.replace(/\s+/g, ' ').replace(/\[([^\]]+)\]\([^)]*\)/g, '$1'))
    .map(plain => /^.+?[.?:!](?= |$)/.exec(plain)?.[0].replace(/:$/, '.'))
  const sentence = sentences.find(one => one !== undefined)
  if (title === undefined) throw new Error(`${path} has no title`)
  return `- [${title}](${BASE}${path})${sentence === undefined ? '' : `: ${sentence}`}`
}

/** The first program of a section of the README. @param {string} heading */
function programOf(heading) {
  const section = read('README.md')
    .split(/^## /m)
    .find(part => part.startsWith(`${heading}\n`))
  const program = section && /^```[jt]s\n[\s\S]*?^```$/m.exec(section)?.[0]
  if (!program) throw new Error(`README.md has no program under ${heading}`)
  return program
}

/** The checklist for production as rules. */
const checklist = /^## Checklist\n\n[\s\S]*?(?=^## )/m.exec(read('docs/running.md'))?.[0] ?? ''
const rules = absolute(checklist.split('\n\n').slice(2).join('\n\n'))
  .replace(/^- \[ \] /gm, '- ')
  .trim()
if (rules === '') throw new Error('docs/running.md has no checklist')
const pages = readdirSync(join(root, 'docs'))
  .filter(name => name.endsWith('.md') && name !== 'architecture.md' && name !== 'reference.md')
  .sort()
/** @param {boolean} isFrom */
const listed = isFrom =>
  pages
    .filter(name => name.startsWith('from-') === isFrom)
    .map(name => entryOf(`docs/${name}`))
    .join('\n')

const guide = `${description}

## Begin

${programOf('Express')}

Over Redis, one count for all processes:

${programOf('Redis')}

Every option with its default and an example is in the types, and in [the reference](${BASE}docs/reference.md). A wrong option throws a \`PolicyError\` that says what is expected: believe the message.
\`npx spillway migrate\` reports what a project uses of other limiters; \`npx spillway doctor\` examines Redis.

## Before it is done

${rules}

## Pages

${listed(false)}

## Coming from

${listed(true)}
`
const FILES = {
  'llms.txt': `# spillway

> ${description}

## Reference

- [Reference](${BASE}docs/reference.md): Every export and option, with defaults, units and examples.
- [Changelog](${BASE}CHANGELOG.md): What changes for users.
- [Security](${BASE}SECURITY.md): What it trusts, what it does not, and what is no vulnerability.

## Documents

${listed(false)}

## Coming from

${listed(true)}
`,
  'AGENTS.md': `# Rate limits with spillway

For coding agents in projects that use the package. Who works on the package itself reads [CONTRIBUTING.md](${BASE}CONTRIBUTING.md).

${guide}`,
  'skills/spillway/SKILL.md': `---
name: spillway
description: Rate limits, concurrency limits, shared rates, semaphores and delay queues in Node services with the package spillway. Use when a project depends on spillway, or needs to limit, throttle or queue requests.
---

# Rate limits with spillway

${guide}`,
}

const checks = process.argv.includes('--check')
for (const [path, text] of Object.entries(FILES)) {
  const file = join(root, path)
  let before = ''
  try {
    before = readFileSync(file, 'utf8')
  } catch {
    // It is new.
  }
  if (before === text) continue
  if (checks) {
    console.error(`${path} is stale: npm run agents`)
    process.exitCode = 1
  } else {
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
}
