import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, test } from '@jest/globals'
import Database from 'better-sqlite3'
import { SqliteStore } from '../../../src/sql/sqlite-store.js'
import type { ManualClock } from '../../../src/testing.js'
import { expectAgreement, KINDS } from '../../support/agreement.js'
import { ofCases } from '../../support/cases.js'
import { testServerClock } from '../../support/sql/server-clock.js'
import { describeStore } from '../../support/store-contract.js'

const OPERATIONS = ofCases(100_000)
const folder = mkdtempSync(join(tmpdir(), 'spillway-sqlite-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
let stores = 0
const storeOf = (clock: ManualClock) =>
  new SqliteStore(join(folder, 'limits.db'), { clock, prefix: `store ${stores++}` })

describeStore('SqliteStore', { make: storeOf, whole: true, promises: 3000, properties: 200 })

describeStore('SqliteStore over better-sqlite3', {
  make: clock => new SqliteStore(new Database(join(folder, 'better.db')), { clock, prefix: `store ${stores++}` }),
})

testServerClock(() => [new SqliteStore(join(folder, 'clock.db')), new SqliteStore(join(folder, 'clock.db'))])

describe('memory and SQLite agree on every field of every verdict', () => {
  test.each(KINDS)('%s (%p)', (_, algorithms, part) => expectAgreement(storeOf, algorithms, OPERATIONS * part), 60_000)
})
