import { beforeAll, expect, test } from '@jest/globals'
import type { Pool } from 'pg'
import { parsePolicy } from '../../src/limiter/core/limit.js'
import { PostgresStore } from '../../src/sql/postgres-store.js'
import { ManualClock } from '../../src/testing.js'
import { START } from '../support/stories.js'
import { testPostgres } from '../support/test-postgres.js'

const database = testPostgres()
let pool: Pool
beforeAll(async () => {
  pool = database.pool({ max: 4 })
  await new PostgresStore(pool).createTable()
})

const clock = new ManualClock(START)
const [limit] = parsePolicy('2/1h')
const keys = Array.from({ length: 50 }, (_, i) => `key ${i}`)

/** A process of its own: a store, and what it has sent. */
function newProcess() {
  const sent: string[] = []
  const client = {
    async query(text: string, values: readonly unknown[], name?: string) {
      sent.push(/INSERT|UPDATE/.test(text) ? 'write' : 'read')
      return (await pool.query({ text, values: [...values], name })).rows
    },
  }
  const store = new PostgresStore(client, { prefix: 'statements', clock })
  /** Decides all keys in one turn of the event loop. */
  const decide = async () => {
    sent.length = 0
    const all = await Promise.all(keys.map(key => store.consume([{ key, limit }], 1)))
    return { sent: [...sent], allowed: all.filter(([verdict]) => verdict.allowed).length }
  }
  return { store, decide }
}

test('decisions of one turn are one statement if the keys are its own, two if another process wrote them, and refusals write nothing', async () => {
  const [one, other] = [newProcess(), newProcess()]
  await one.decide()
  expect(await one.decide()).toEqual({ sent: ['write'], allowed: 50 })
  await Promise.all(keys.map(key => one.store.reset([{ key, limit }])))
  await one.decide()
  expect(await other.decide()).toEqual({ sent: ['read', 'write'], allowed: 50 })
  // It learns that its guess is out of date.
  await one.decide()
  expect(await one.decide()).toEqual({ sent: ['read'], allowed: 0 })
  expect(await other.decide()).toEqual({ sent: ['read'], allowed: 0 })
  await Promise.all([one.store.close(), other.store.close()])
})
