import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { CONDITIONS } from '../../src/operating/observing/alerts/conditions.js'
import { METRICS } from '../../src/operating/observing/metrics.js'
import { METHODS } from '../operating/observing/recorder.js'
import { filesOf, root } from '../support/files.js'
import { PAGES, textOf } from './pages.js'

/** The pages of the repository that speak of its files. Whether links lead anywhere, remark looks: `npm run lint`. */
const WRITTEN = [
  ...PAGES,
  ...filesOf('docs/decisions', '.md'),
  ...['src', 'lua', 'test', 'verification'].flatMap(folder => filesOf(folder, 'README.md')),
  'CONTRIBUTING.md',
]

describe('the pages', () => {
  test('each file and folder that they name is in the repository', () => {
    const path = /(?<=`)(?:src|lua|test|verification|docs|scripts|bench|examples|ops)\/[\w./-]*\w\/?(?=`)/g
    const named = WRITTEN.flatMap(page => (textOf(page).match(path) ?? []).map(name => [page, name] as const))
    expect(named.length).toBeGreaterThan(100)
    const isThere = (name: string) => ['', '.ts', '.test.ts'].some(end => existsSync(join(root, name + end)))
    expect(named.filter(([, name]) => !isThere(name))).toEqual([])
  })

  test('each command that they name is in package.json', () => {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    const named = WRITTEN.flatMap(page => [...textOf(page).matchAll(/npm run ([\w:-]+)/g)].map(([, name]) => name))
    expect(named.length).toBeGreaterThan(30)
    expect(named.filter(name => !(name in scripts))).toEqual([])
  })

  test('the README leads to every page of docs/', () => {
    const readme = textOf('README.md')
    expect(PAGES.filter(page => page !== 'README.md' && !readme.includes(`](${page}`))).toEqual([])
  })

  test('every picture is on a page', () => {
    const shown = WRITTEN.flatMap(page =>
      [...textOf(page).matchAll(/!\[[^\]]+\]\(([^)]+\.svg)\)/g)].map(([, file]) => join(dirname(page), file)),
    )
    const pictures = filesOf('docs', '.svg')
    expect(pictures.length).toBeGreaterThan(10)
    expect(pictures.filter(file => !shown.includes(file))).toEqual([])
  })
})

describe('what the code says is explained', () => {
  const sources = filesOf('src', '.ts').map(textOf)

  test('every code of an error or a warning', () => {
    const codes = new Set(
      sources.flatMap(text => text.match(/'(?:SPILLWAY(?:_[A-Z_]+)?|(?:ERR|WRN)_ERL_[A-Z0-9_]+)'/g) ?? []),
    )
    expect(codes.size).toBeGreaterThan(30)
    const page = textOf('docs/troubleshooting.md')
    expect([...codes].map(code => code.slice(1, -1)).filter(code => !page.includes(`\`${code}\``))).toEqual([])
  })

  test('and every code that is explained exists', () => {
    const told = new Set(
      textOf('docs/troubleshooting.md').match(/\b(?:SPILLWAY_[A-Z_]+|(?:ERR|WRN)_ERL_[A-Z0-9_]+)\b/g),
    )
    expect([...told].filter(code => !sources.some(text => text.includes(`'${code}'`)))).toEqual([])
  })

  test.each([
    ['event of an observer', METHODS],
    ['condition of an alert', Object.keys(CONDITIONS)],
    ['metric', Object.values(METRICS).map(({ name }) => `ratelimit_${name}`)],
  ])('every %s', (_, names) => {
    const page = textOf('docs/observing.md')
    expect(names.length).toBeGreaterThan(5)
    expect(names.filter(name => !page.includes(`\n| \`${name}`))).toEqual([])
  })
})
