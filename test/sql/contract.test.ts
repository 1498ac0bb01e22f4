import { afterAll, beforeAll } from '@jest/globals'
import type { Pool } from 'pg'
import postgres from 'postgres'
import type { SqlClient } from '../../src/sql/postgres-store.js'
import { PostgresStore } from '../../src/sql/postgres-store.js'
import type { ManualClock } from '../../src/testing.js'
import { describeAgreement } from '../support/agreement.js'
import { PgBouncer } from '../support/pg-bouncer.js'
import { describeStore } from '../support/store-contract.js'
import { testPostgres } from '../support/test-postgres.js'

const database = testPostgres()
beforeAll(() => new PostgresStore(database.pool({ max: 1 })).createTable())
let stores = 0

/** Makes stores over one client. */
function over(clientOf: () => object | Promise<object>) {
  let client: object
  return {
    start: async () => {
      client = await clientOf()
    },
    make: (clock: ManualClock): PostgresStore => new PostgresStore(client, { clock, prefix: `store ${stores++}` }),
  }
}

describeStore('PostgresStore over pg', {
  ...over(() => database.pool({ max: 2 })),
  whole: true,
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

let one: Pool | undefined
describeAgreement(
  'PostgreSQL',
  (clock, prefix) => {
    one ??= database.pool({ max: 4 })
    return new PostgresStore(one, { clock, prefix })
  },
  200_000,
  false,
)
