import { beforeAll, describe, expect, test } from '@jest/globals'
import type { Pool } from 'pg'
import postgres from 'postgres'
import { parsePolicy } from '../../src/limiter/core/limit.js'
import { PostgresStore, type PostgresStoreOptions } from '../../src/sql/postgres-store.js'
import { testPostgres } from '../support/test-postgres.js'

const database = testPostgres()
let pool: Pool
beforeAll(async () => {
  pool = database.pool({ max: 2 })
  await new PostgresStore(pool).createTable()
})

const [limit, other] = parsePolicy('9/1h; 99/1h name=other')

/** How much is left for two keys, asked for alone and together, and by a store that remembers nothing. */
async function left(client: object, options: PostgresStoreOptions): Promise<number[]> {
  const all: number[] = []
  for (const store of [new PostgresStore(client, options), new PostgresStore(client, options)]) {
    for (let i = 0; i < 2; i++) {
      const one = store.consume([{ key: 'one', limit }], 1)
      const both = store.consume(
        ['one', 'two'].map(key => ({ key, limit: other })),
        1,
      )
      all.push((await one)[0].remaining, (await both)[1].remaining)
    }
  }
  return all
}

const EXPECTED = [8, 98, 7, 97, 6, 96, 5, 95]

test.each<[string, postgres.Options<Record<string, postgres.PostgresType>>]>([
  ['that renames columns in snake case', { transform: postgres.camel }],
  ['that reads bigint as BigInt', { types: { bigint: postgres.BigInt } }],
  ['that asks for no types', { fetch_types: false }],
])('the function of postgres %s', async (title, options) => {
  const sql = postgres(database.url, { max: 1, onnotice: () => {}, ...options })
  expect(await left(sql, { prefix: title })).toEqual(EXPECTED)
  await new PostgresStore(sql, { table: 'limits' }).createTable()
  await pool.query("COMMENT ON TABLE limits IS 'spillway format 0'")
  await expect(new PostgresStore(sql, { table: 'limits' }).createTable()).rejects.toThrow('is of "spillway format 0"')
  await pool.query('DROP TABLE limits')
  await sql.end()
})

test('a pool that parses every type in its own way', async () => {
  const parse = (oid: number) => (text: string) => (oid === 20 ? BigInt(text) : text)
  const parsing = database.pool({ max: 1, types: { getTypeParser: parse } as never })
  expect(await left(parsing, { prefix: 'parsing' })).toEqual(EXPECTED)
})

test('a table in a schema that is not searched, with capitals', async () => {
  await pool.query('CREATE SCHEMA "Limits"')
  const apart = database.pool({ max: 1, options: '-c search_path=pg_catalog' })
  const store = new PostgresStore(apart, { table: 'Limits.Spillway' })
  await store.createTable()
  await store.createTable()
  expect(await left(apart, { table: 'Limits.Spillway' })).toEqual(EXPECTED)
  await pool.query('CREATE ROLE reader LOGIN')
  await pool.query('GRANT USAGE ON SCHEMA "Limits" TO reader')
  const connectionString = database.url.replace(/\w+@/, 'reader@')
  const asReader = database.pool({ max: 1, connectionString })
  const reader = new PostgresStore(asReader, { table: 'Limits.Spillway' })
  await expect(reader.consume([{ key: 'one', limit }], 1)).rejects.toThrow(
    'GRANT SELECT, INSERT, UPDATE, DELETE ON "Limits"."Spillway" TO the user of the pool',
  )
  const creator = new PostgresStore(asReader, { table: 'Limits.mine' })
  await expect(creator.createTable()).rejects.toThrow('let a user who may create tables there run the statements')
  await expect(new PostgresStore(pool, { table: 'none.mine' }).createTable()).rejects.toThrow('create the schema first')
  await asReader.end()
  await pool.query('DROP OWNED BY reader; DROP ROLE reader')
})

describe('an answer that is no list of rows says what a client has to give', () => {
  const rows = async (text: string, values: readonly unknown[]) =>
    (await pool.query({ text, values: [...values] })).rows
  test.each<[string, (text: string, values: readonly unknown[]) => unknown]>([
    ['nothing', async () => undefined],
    ['no rows', async () => []],
    ['the whole result', (text, values) => pool.query({ text, values: [...values] })],
    ['rows as lists', async (text, values) => (await rows(text, values)).map(row => Object.values(row))],
    [
      'columns of other names',
      async (text, values) => (await rows(text, values)).map(({ clock }) => ({ Clock: clock })),
    ],
  ])('%s', async (title, query) => {
    const store = new PostgresStore({ query }, { prefix: title })
    await expect(store.consume([{ key: 'one', limit }], 1)).rejects.toThrow(
      /^PostgresStore: its client answered .*: expected a list of rows, objects with the names of the columns/,
    )
  })
})
