import { afterAll, describe, test } from '@jest/globals'
import postgres from 'postgres'
import type { SqlClient } from '../../src/sql/postgres-store.js'
import { PostgresStore } from '../../src/sql/postgres-store.js'
import type { ManualClock } from '../../src/testing.js'
import { expectAgreement, KINDS } from '../support/agreement.js'
import { ofCases } from '../support/cases.js'
import { PgBouncer } from '../support/pg-bouncer.js'
import { describeStore } from '../support/store-contract.js'
import { testPostgres } from '../support/test-postgres.js'

const OPERATIONS = ofCases(200_000)
const database = testPostgres()
let stores = 0

/** Makes stores over one client, and the table with the first. */
function over(clientOf: () => object | Promise<object>) {
  let client: object
  return {
    start: async () => {
      client = await clientOf()
      await new PostgresStore(client).createTable()
    },
    make: (clock: ManualClock): PostgresStore => new PostgresStore(client, { clock, prefix: `store ${stores++}` }),
  }
}

describeStore('PostgresStore over pg', {
  ...over(() => database.pool({ max: 2 })),
  whole: true,
  promises: 3000,
  properties: 200,
})

const opened: postgres.Sql[] = []
afterAll(async () => void (await Promise.all(opened.map(sql => sql.end()))))

describeStore(
  'PostgresStore over postgres',
  over(() => {
    const sql = postgres(database.url, { max: 2, onnotice: () => {} })
    opened.push(sql)
    return sql
  }),
)

describeStore(
  'PostgresStore over a client of its user',
  over((): SqlClient => {
    const pool = database.pool({ max: 2 })
    return { query: async (text, values, name) => (await pool.query({ text, values: [...values], name })).rows }
  }),
)

let bouncer: PgBouncer | undefined
afterAll(() => bouncer?.stop())

describeStore(
  'PostgresStore behind PgBouncer in transaction mode',
  over(async () => {
    bouncer = await PgBouncer.start(database, 2)
    return database.pool({ connectionString: bouncer.url(database.name), max: 4 })
  }),
)

describe('memory and PostgreSQL agree on every field of every verdict', () => {
  test.each(KINDS)(
    '%s (%p)',
    (_, algorithms, part) => {
      const storeOf = (clock: ManualClock, prefix: string) =>
        new PostgresStore(database.pool({ max: 1 }), { clock, prefix })
      return expectAgreement(storeOf, algorithms, OPERATIONS * part)
    },
    60_000,
  )
})
