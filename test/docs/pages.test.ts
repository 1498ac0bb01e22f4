import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { filesOf, root } from '../support/files.js'
import { PAGES, textOf } from './pages.js'

const DECISIONS = filesOf('docs/decisions', '.md')
const WRITTEN = [
  ...PAGES,
  ...DECISIONS,
  'CONTRIBUTING.md',
  'SECURITY.md',
  'CODE_OF_CONDUCT.md',
  'lua/README.md',
  'test/README.md',
]

/**
 * Where the links and pictures of a page lead: paths from the root of the repository, with `#` and an anchor, or
 * addresses.
 */
function targetsOf(page: string): string[] {
  const text = textOf(page).replace(/^```.*?^```$/gms, '')
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => {
    if (/^[a-z]+:/.test(target)) return target
    return target.startsWith('#') ? `${page}${target}` : join(dirname(page), target)
  })
}

const anchors = new Map<string, Set<string>>()
function anchorsOf(page: string): Set<string> {
  const known = anchors.get(page) ?? readAnchors(page)
  anchors.set(page, known)
  return known
}

/** The anchors that GitHub gives the headings of a page, and those that the page sets itself. */
function readAnchors(page: string): Set<string> {
  const text = textOf(page).replace(/^```.*?^```$/gms, '')
  const anchors = new Set([...text.matchAll(/<a id="([^"]+)"/g)].map(([, id]) => id))
  for (const [, heading] of text.matchAll(/^#+ (.+)$/gm)) {
    const words = heading.replace(/<[^>]*>/g, '').toLowerCase()
    const anchor = words
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replace(/\s/g, '-')
    anchors.add(anchor)
  }
  return anchors
}

describe('the pages', () => {
  test('the README has at most 130 lines', () => {
    expect(textOf('README.md').trimEnd().split('\n').length).toBeLessThanOrEqual(130)
  })

  test.each(WRITTEN)('%s: each link leads to a file and a heading that exist', page => {
    const broken = targetsOf(page)
      .filter(target => !/^[a-z]+:/.test(target))
      .filter(target => {
        const [path, anchor] = target.split('#')
        if (!existsSync(join(root, path))) return true
        return anchor !== undefined && !anchorsOf(path).has(anchor)
      })
    expect(broken).toEqual([])
  })

  test('links of the README are relative, so that they lead to the version that is read; registries complete them', () => {
    const targets = [...textOf('README.md').matchAll(/[^!]\[(?:[^\]!]|!\[.*?\]\(.*?\))*\]\(([^)\s]+)\)/g)].map(
      ([, target]) => target,
    )
    expect(targets.length).toBeGreaterThan(30)
    expect(targets.filter(target => /^[a-z]+:/.test(target))).toEqual([])
  })

  test('the README leads to every page of docs/', () => {
    const targets = targetsOf('README.md').map(target => target.split('#')[0])
    const pages = PAGES.filter(page => page.startsWith('docs/'))
    expect(pages.filter(page => !targets.includes(page))).toEqual([])
  })

  test('every code of an error or a warning is explained', () => {
    const sources = filesOf('src', '.ts').map(file => textOf(file))
    const codes = new Set(
      sources.flatMap(text => text.match(/'(?:SPILLWAY(?:_[A-Z_]+)?|(?:ERR|WRN)_ERL_[A-Z0-9_]+)'/g) ?? []),
    )
    expect(codes.size).toBeGreaterThan(30)
    const page = textOf('docs/troubleshooting.md')
    expect([...codes].map(code => code.slice(1, -1)).filter(code => !page.includes(`\`${code}\``))).toEqual([])
  })

  test('every explained code exists', () => {
    const sources = filesOf('src', '.ts').map(file => textOf(file))
    const told = new Set(
      textOf('docs/troubleshooting.md').match(/\b(?:SPILLWAY_[A-Z_]+|(?:ERR|WRN)_ERL_[A-Z0-9_]+)\b/g),
    )
    expect([...told].filter(code => !sources.some(text => text.includes(`'${code}'`)))).toEqual([])
  })

  test('each file and folder that a decision names is in the repository', () => {
    const named = DECISIONS.flatMap(
      page => textOf(page).match(/(?<=`)(?:src|lua|test|bench|docs|scripts|proofs|examples)\/[^`\s*]*(?=`)/g) ?? [],
    )
    expect(named.length).toBeGreaterThan(5)
    expect(named.filter(path => !existsSync(join(root, path)))).toEqual([])
  })

  test('no page cites files outside the repository', () => {
    const outside = /\b(?:D\d{1,2}|shared\/[A-Z]+|DESIGN\.md|API(?:-2)?\.ts|EXAMPLES\.md|WAITING\.md|DASHBOARD\.md)\b/
    expect(WRITTEN.filter(page => outside.test(textOf(page)))).toEqual([])
  })
})
