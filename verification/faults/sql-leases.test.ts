import { beforeAll, expect, jest, test } from '@jest/globals'
import { PostgresStore } from '../../src/sql/postgres-store.js'
import { Child } from '../../test/support/child.js'
import { testPostgres } from '../../test/support/test-postgres.js'

jest.setTimeout(60_000)

const database = testPostgres()
beforeAll(() => new PostgresStore(database.pool()).createTable())

/**
 * Spends from one key, so many units every 10 ms, and says what was granted, and how many statements a second it took
 * after a first second.
 */
const SPENDER = `import { Pool } from 'pg'
import { PostgresStore } from './src/sql/postgres-store.ts'
import { RateLimiter } from './src/limiter/rate-limiter.ts'
import { answering } from './test/support/answering.ts'
const [url, burst] = process.argv.slice(2)
const pool = new Pool({ connectionString: url, max: 1 })
let statements = 0
const client = {
  query: async (text, values, name) => {
    statements++
    return (await pool.query({ text, values: [...values], name })).rows
  },
}
const limiter = new RateLimiter({ policy: '10000/1m', name: 'fleet ' + burst, store: new PostgresStore(client, { leases: true }), deadline: '1s', onStoreFailure: 'closed' })
let [granted, asked] = [0, 0]
const spend = async ms => {
  for (const end = performance.now() + ms; performance.now() < end; ) {
    for (let i = 0; i < Number(burst); i++) {
      asked++
      if ((await limiter.consume('hot')).allowed) granted++
    }
    await new Promise(resolve => setTimeout(resolve, 10))
  }
}
answering(async () => {
  await spend(1000)
  const [before, beganAt] = [statements, performance.now()]
  await spend(5000)
  const perSecond = (statements - before) / ((performance.now() - beganAt) / 1000)
  await limiter.close()
  return { granted, asked, perSecond }
})`

test.each([
  ['within the limit', 4],
  ['far over it', 200],
])(
  'a fleet that asks for a busy key %s costs the database under 20 statements a second and process',
  async (_, burst) => {
    const fleet = await Child.startAll(4, SPENDER, [database.url, burst])
    try {
      const all = await Promise.all(
        fleet.map(child => child.ask<{ granted: number; asked: number; perSecond: number }>('go')),
      )
      const sum = (of: (one: (typeof all)[0]) => number) => all.reduce((total, one) => total + of(one), 0)
      expect(sum(({ granted }) => granted)).toBeLessThanOrEqual(10_000)
      expect(sum(({ granted }) => granted)).toBeGreaterThan(Math.min(9000, 0.9 * sum(({ asked }) => asked)))
      for (const { perSecond } of all) expect(perSecond).toBeLessThan(20)
    } finally {
      for (const child of fleet) child.kill()
    }
  },
)
