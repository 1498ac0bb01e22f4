import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { expect, test } from '@jest/globals'

const root = resolve(__dirname, '../..')
const require = createRequire(__filename)
const slow: Readonly<Record<string, number>> = require('./slow-files.json')
const Sequencer: new (
  options: object,
) => { sort(tests: object[]): Promise<{ path: string }[]> } = require('./test-sequencer.cjs')

const sorted = async (paths: string[]) => {
  const context = { config: { rootDir: root, cache: false }, hasteFS: { getSize: () => 1 } }
  const tests = paths.map(path => ({ context, path: join(root, path) }))
  return (await new Sequencer({ contexts: [], globalConfig: {} }).sort(tests)).map(({ path }) =>
    path.slice(root.length + 1),
  )
}

test('on a fresh clone, the files that are known as slow run first, the slowest of them before all', async () => {
  const [slowest, next] = Object.keys(slow).sort((a, b) => slow[b] - slow[a])
  expect((await sorted(['test/new.test.ts', next, slowest])).slice(0, 2)).toEqual([slowest, next])
})

test('every file that is known as slow exists', () => {
  expect(Object.keys(slow).length).toBeGreaterThan(20)
  expect(Object.keys(slow).filter(path => !existsSync(join(root, path)))).toEqual([])
})
