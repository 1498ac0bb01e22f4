import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from '@jest/globals'
import Database from 'better-sqlite3'
import { SqliteStore } from '../../../src/sql/sqlite-store.js'
import type { ManualClock } from '../../../src/testing.js'
import { describeAgreement } from '../../support/agreement.js'
import { testServerClock } from '../../support/sql/server-clock.js'
import { describeStore } from '../../support/store-contract.js'

const folder = mkdtempSync(join(tmpdir(), 'spillway-sqlite-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
let stores = 0
const storeOf = (clock: ManualClock) =>
  new SqliteStore(join(folder, 'limits.db'), { clock, prefix: `store ${stores++}` })

describeStore('SqliteStore', { make: storeOf, whole: true })

describeStore('SqliteStore over better-sqlite3', {
  make: clock => new SqliteStore(new Database(join(folder, 'better.db')), { clock, prefix: `store ${stores++}` }),
})

testServerClock(() => [new SqliteStore(join(folder, 'clock.db')), new SqliteStore(join(folder, 'clock.db'))])

describeAgreement('SQLite', storeOf, 100_000, false)
