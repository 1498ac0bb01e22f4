import { expect, test } from '@jest/globals'
import { parsePolicy } from '../../../src/limiter/core/limit.js'
import { openSqlite } from '../../../src/sql/sqlite-database.js'
import { SqliteStore } from '../../../src/sql/sqlite-store.js'

const [limit] = parsePolicy('10/1h')

test('a row of another format fails its own decisions, and no others of the same transaction', async () => {
  const database = openSqlite(':memory:', 'test')
  const store = new SqliteStore(database)
  const of = (key: string) => [{ key, limit }]
  const all = ['a', 'b', 'c'].map(of)
  await Promise.all(all.map(charges => store.consume(charges, 1)))
  database.exec("UPDATE spillway SET state = '99 later', version = 'x' WHERE key LIKE '%:b'")
  const answers = await Promise.allSettled([...all, [...of('a'), ...of('b')]].map(charges => store.consume(charges, 1)))
  expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'rejected'])
  expect((await store.peek(of('a'), 0))[0].remaining).toBe(10 - 2)
})
