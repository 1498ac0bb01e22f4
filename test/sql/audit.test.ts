import { beforeAll, describe, expect, jest, test } from '@jest/globals'
import { PostgresStore } from '../../src/sql/postgres-store.js'
import { audit, deadlocksOf, postgresStore } from '../support/sql/audit.js'
import { testPostgres } from '../support/test-postgres.js'

jest.setTimeout(60_000)

describe('what four processes grant at once is within every policy, and in the database', () => {
  const database = testPostgres()
  beforeAll(() => new PostgresStore(database.pool()).createTable())

  test('over PostgreSQL', async () => {
    await audit(
      { processes: 4, seconds: 2, chaos: false, store: postgresStore(database.url) },
      new PostgresStore(database.pool()),
    )
    expect(await deadlocksOf(database.pool())).toBe(0)
  })
})
