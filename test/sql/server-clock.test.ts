import { beforeAll } from '@jest/globals'
import type { Pool } from 'pg'
import { PostgresStore } from '../../src/sql/postgres-store.js'
import { testServerClock } from '../support/sql/server-clock.js'
import { testPostgres } from '../support/test-postgres.js'

const database = testPostgres()
let pool: Pool
beforeAll(async () => {
  pool = database.pool({ max: 2 })
  await new PostgresStore(pool).createTable()
})

testServerClock(() => [new PostgresStore(pool), new PostgresStore(pool)])
