import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { PgBouncer } from '../support/pg-bouncer.js'
import { PostgresServer } from '../support/postgres-server.js'
import { testPostgres } from '../support/test-postgres.js'

describe('the PostgreSQL that test files share', () => {
  const database = testPostgres()
  let bouncer: PgBouncer
  beforeAll(async () => {
    bouncer = await PgBouncer.start(database, 1)
  })
  afterAll(() => bouncer.stop())

  it('gives each file a database of its own', async () => {
    const pool = database.pool()
    const { rows } = await pool.query('SELECT current_database() AS name, clock_timestamp() > now() AS ticks')
    expect(rows).toEqual([{ name: database.name, ticks: true }])
  })

  it('is behind a PgBouncer that gives all clients one connection, transaction by transaction', async () => {
    const pool = database.pool({ connectionString: bouncer.url(database.name), max: 2 })
    const [one, two] = [await pool.connect(), await pool.connect()]
    const backend = async (client: typeof one) => (await client.query('SELECT pg_backend_pid() AS pid')).rows[0].pid
    expect(await backend(one)).toBe(await backend(two))
    one.release()
    two.release()
  })
})

describe('a PostgreSQL of one file', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await PostgresServer.start()
  })
  afterAll(() => server.stop())

  it('stops, goes on, and is killed: unlogged tables are empty then, others are not', async () => {
    const pool = server.pool()
    await pool.query('CREATE UNLOGGED TABLE quick (n int)')
    await pool.query('CREATE TABLE durable (n int)')
    await pool.query('INSERT INTO quick VALUES (1)')
    await pool.query('INSERT INTO durable VALUES (1)')
    const count = async (table: string) => Number((await pool.query(`SELECT count(*) FROM ${table}`)).rows[0].count)

    server.pause()
    let answered = false
    const late = count('quick').then(rows => {
      answered = true
      return rows
    })
    await new Promise(resolve => setTimeout(resolve, 50))
    expect(answered).toBe(false)
    server.unpause()
    expect(await late).toBe(1)

    await server.restart({ clean: true })
    expect([await count('quick'), await count('durable')]).toEqual([1, 1])
    await server.restart()
    expect([await count('quick'), await count('durable')]).toEqual([0, 1])
  })
})
