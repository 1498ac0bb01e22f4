import { beforeAll, expect, test } from '@jest/globals'
import type { Pool } from 'pg'
import { parsePolicy } from '../../src/limiter/core/limit.js'
import { PostgresStore } from '../../src/sql/postgres-store.js'
import { expectForgetfulAgreement } from '../support/sql/forgetful.js'
import { testPostgres } from '../support/test-postgres.js'

const database = testPostgres()
let pool: Pool
beforeAll(async () => {
  pool = database.pool({ max: 8 })
  await new PostgresStore(pool).createTable()
})

test('a flight of more rows than the process remembers looks at all of them, and changes all of them', async () => {
  const [limit] = parsePolicy('10/1h')
  const charges = Array.from({ length: 8 }, (_, i) => [{ key: `${i}`, limit }])
  const others = charges.map(() => new PostgresStore(pool, { prefix: 'flight' }))
  await Promise.all(charges.map((one, i) => others[i].consume(one, 10)))
  const store = new PostgresStore(pool, { prefix: 'flight', remember: 3 })
  const left = async () =>
    (await Promise.all(charges.map(one => store.peek(one, 0)))).map(([{ remaining }]) => remaining)
  expect(await left()).toEqual(charges.map(() => 0))
  await Promise.all(charges.map(one => store.reset(one)))
  expect(await left()).toEqual(charges.map(() => 10))
  // They would sweep the table by the server's clock, by which all rows of the next test have expired.
  await Promise.all([store, ...others].map(one => one.close()))
})

test(
  'processes that remember a few rows agree with one that forgets nothing',
  () => expectForgetfulAgreement(400, options => new PostgresStore(pool, { ...options, maxBatch: 6 })),
  60_000,
)
