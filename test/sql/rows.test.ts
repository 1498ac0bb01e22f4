import { beforeAll, expect, test } from '@jest/globals'
import { parsePolicy } from '../../src/limiter/core/limit.js'
import { PostgresStore } from '../../src/sql/postgres-store.js'
import { testPostgres } from '../support/test-postgres.js'

const database = testPostgres()
const [limit] = parsePolicy('10/1h')
beforeAll(() => new PostgresStore(database.pool()).createTable())

test('a row of another format fails its own decisions, and no others of the same statement', async () => {
  const pool = database.pool({ max: 1 })
  const store = new PostgresStore(pool, { prefix: 'formats' })
  const of = (key: string) => [{ key, limit }]
  const all = ['a', 'b', 'c'].map(of)
  await Promise.all(all.map(charges => store.consume(charges, 1)))
  const later = () =>
    pool.query("UPDATE spillway SET state = '99 later', version = version + 1 WHERE key LIKE 'formats:%:b'")
  expect((await later()).rowCount).toBe(1)
  // First found by a write that is lost, then by a read; and by a process that remembers nothing.
  for (const one of [store, store, new PostgresStore(pool, { prefix: 'formats' })]) {
    const answers = await Promise.allSettled([...all, [...of('a'), ...of('b')]].map(charges => one.consume(charges, 1)))
    expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'rejected'])
  }
  const [{ remaining }] = await store.peek(of('a'), 0)
  expect(remaining).toBe(10 - 4)
})
