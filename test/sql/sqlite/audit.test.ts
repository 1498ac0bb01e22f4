import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, jest, test } from '@jest/globals'
import { SqliteStore } from '../../../src/sql/sqlite-store.js'
import { ofCases } from '../../support/cases.js'
import { audit, sqliteStore } from '../../support/sql/audit.js'

jest.setTimeout(120_000)

const folder = mkdtempSync(join(tmpdir(), 'spillway-sqlite-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('four processes that are stopped and killed grant what the policies allow, and it is in the file', async () => {
  const file = join(folder, 'limits.db')
  const store = new SqliteStore(file)
  const seconds = ofCases(30)
  const { stops, kills } = await audit({ processes: 4, seconds, chaos: true, store: sqliteStore(file) }, store)
  expect(stops).toBeGreaterThan(seconds / 3)
  expect(kills).toBeGreaterThanOrEqual(Math.floor(seconds / 20))
  await store.close()
})
