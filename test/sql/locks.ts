import type { Pool } from 'pg'

/** Something that makes statements on the table of a store wait: begins, and ends when its result is called. */
export type Lock = (admin: Pool, table: string) => Promise<() => Promise<unknown>>

/** A transaction that has executed these statements, and then stays open. */
const transaction =
  (statements: (table: string) => string): Lock =>
  async (admin, table) => {
    const holder = await admin.connect()
    await holder.query(`BEGIN; ${statements(table)}`)
    return async () => {
      await holder.query('COMMIT')
      holder.release()
    }
  }

export const LOCKS: Readonly<Record<string, Lock>> = {
  'LOCK TABLE': transaction(table => `LOCK TABLE ${table}`),

  'a locked row': transaction(table => `SELECT FROM ${table} FOR UPDATE`),

  'VACUUM FULL behind a transaction that reads': async (admin, table) => {
    const end = await transaction(table => `SELECT count(*) FROM ${table}`)(admin, table)
    const vacuum = admin.query(`VACUUM FULL ${table}`)
    return async () => {
      await end()
      await vacuum
    }
  },

  'a standby that is gone': async admin => {
    const setting = async (value: string) => {
      await admin.query(`ALTER SYSTEM SET synchronous_standby_names = '${value}'`)
      await admin.query('SELECT pg_reload_conf()')
    }
    await setting('gone')
    return () => setting('')
  },
}
