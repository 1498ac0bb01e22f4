import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, test } from '@jest/globals'
import * as spillway from '../../../src/index.js'
import * as sqlite from '../../../src/sql/sqlite-store.js'
import { SNIPPETS } from '../../docs/pages.js'
import { runSample } from '../../support/sample.js'

const before = process.cwd()
const folder = mkdtempSync(join(tmpdir(), 'spillway-sqlite-'))
beforeAll(() => process.chdir(folder))
afterAll(() => {
  process.chdir(before)
  rmSync(folder, { recursive: true })
})

/** Those that test/docs/snippets.test.ts leaves out, because they need SQLite. */
const rows = SNIPPETS.filter(({ code }) => code.includes("'spillway/sqlite'")).map(
  ({ page, line, code }) => [page, line, code] as const,
)

test.each(rows)('the snippet of %s in line %i runs', async (_page, _line, code) => {
  const modules: Record<string, unknown> = { spillway, 'spillway/sqlite': sqlite }
  await runSample(code, name => modules[name] ?? require(name), {})
})
