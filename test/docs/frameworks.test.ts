import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { root } from '../support/files.js'
import { textOf } from './pages.js'

const ADAPTER_TESTS = ['test/http/adapters', 'test/versions']
  .flatMap(folder => readdirSync(join(root, folder)).map(name => join(root, folder, name)))
  .filter(file => file.endsWith('.test.ts'))
  .map(file => readFileSync(file, 'utf8'))
  .join('\n')

const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

/** The rows of the README's table of frameworks. */
const ROWS = [
  ...textOf('README.md').matchAll(/^\| (.+) \| `spillway\/([a-z]+)` \| ([\d, ]*) ?\| `(.+)` \| (yes|–) \|$/gm),
].map(([, name, entry, versions, decision, more]) => ({
  name: name.replace(/\[(.+)\]\(.+?\)/, '$1'),
  entry,
  versions: versions.trim() === '' ? [] : versions.trim().split(', '),
  decision,
  more,
}))

test('the table of frameworks has each entry point for a framework', () => {
  const others =
    /index|express-rate-limit|koa-ratelimit|rate-limiter-flexible|adaptive|alerts|dashboard|live|outgoing|prometheus|opentelemetry|testing|bottleneck|postgres|sqlite/
  const entries: Record<string, string> = JSON.parse(readFileSync(join(root, 'scripts/entries.json'), 'utf8'))
  expect(ROWS.map(({ entry }) => entry).sort()).toEqual(
    Object.keys(entries)
      .filter(name => !others.test(name))
      .sort(),
  )
})

test.each(ROWS)('$name: each version is tested, by the contract of the adapters', ({ name, entry, versions }) => {
  if (entry === 'ws') return expect(devDependencies.ws).toMatch(new RegExp(`^\\^${versions}\\.`))
  const titles = versions.length === 0 ? [name.split(/[ ,]/)[0]] : versions.map(version => `${name} ${version}`)
  for (const title of titles) expect(ADAPTER_TESTS).toMatch(new RegExp(`adapterContract\\(\\s*'${title}( on |')`))
})

test.each(ROWS)('$name: the cell $more for concurrencyLimit and shed is right', ({ entry, more }) => {
  const names = Object.keys(require(join(root, 'dist', `${entry}.js`)))
  for (const name of ['concurrencyLimit', 'shed']) expect(names.includes(name)).toBe(more === 'yes')
})

test.each(ROWS)('$name: the decision is in the place that the page names', ({ entry, decision }) => {
  const page = ['express', 'koa'].includes(entry) ? 'README.md' : `docs/${entry}.md`
  expect(textOf(page)).toContain(decision.replace(/\(.*/, ''))
})
