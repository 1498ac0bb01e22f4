// Contenders over PostgreSQL and SQLite, each with a number of decisions in flight.
import pg from 'pg'
import { RateLimiterPostgres, RateLimiterSQLite } from 'rate-limiter-flexible'
import { RateLimiter } from '../../dist/index.mjs'
import { PostgresStore } from '../../dist/postgres.mjs'
import { SqliteStore } from '../../dist/sqlite.mjs'
import { answer, setup } from './answering.mjs'
import { inFlightOf } from './in-flight.mjs'
import { decidedByStore, PATIENT, passedOf30, passes } from './passing.mjs'
import { clients, PLENTY, WINDOW_MS } from './traffic.mjs'

const { contender, url, inFlight, keys: keyCount } = setup

/**
 * @param {import('../../dist/index.mjs').Store} store
 * @param {number} quota
 * @param {any} [algorithm] Default: that of spillway.
 */
function limiterOver(store, quota, algorithm) {
  const policy = { quota, window: WINDOW_MS, ...(algorithm && { algorithm }) }
  const limiter = new RateLimiter({ policy, name: `${quota} ${algorithm}`, store, ...PATIENT, denyCache: false })
  return async (/** @type {string} */ key) => decidedByStore(await limiter.consume(key)).allowed
}

const pool = () => new pg.Pool({ connectionString: url, max: 10 })

/** A file whose writers disturb its readers least, and which is not flushed with each write. */
async function file() {
  // Runs only on a Node for which it is made, and the contenders over PostgreSQL on any.
  const { default: Database } = await import('better-sqlite3')
  const database = new Database(url)
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL')
  return database
}

/** @type {Record<string, (quota: number) => Promise<(key: string) => Promise<boolean>>>} */
const contenders = {
  'spillway, PostgreSQL': async quota => limiterOver(new PostgresStore(pool()), quota, 'fixed-window'),

  'spillway, sliding-window, PostgreSQL': async quota => limiterOver(new PostgresStore(pool()), quota),

  // Not a limiter: the least that a question takes.
  'SELECT 1': async () => {
    const client = pool()
    return async () => (await client.query({ name: 'one', text: 'SELECT 1' })).rows.length === 1
  },

  'rate-limiter-flexible, PostgreSQL': async quota => {
    const options = { storeClient: pool(), tableName: 'peer', tableCreated: true, clearExpiredByTimeout: false }
    return passes(
      new RateLimiterPostgres({ ...options, keyPrefix: `${quota}`, points: quota, duration: WINDOW_MS / 1000 }),
    )
  },

  'spillway, SQLite': async quota => limiterOver(new SqliteStore(await file()), quota, 'fixed-window'),

  'spillway, sliding-window, SQLite': async quota => limiterOver(new SqliteStore(await file()), quota),

  "spillway, SQLite of Node's own": async quota => limiterOver(new SqliteStore(url), quota, 'fixed-window'),

  'rate-limiter-flexible, SQLite': async quota => {
    const options = { storeClient: await file(), storeType: 'better-sqlite3', tableName: 'peer', tableCreated: true }
    options.storeClient.exec(
      'CREATE TABLE IF NOT EXISTS peer (key TEXT PRIMARY KEY, points INTEGER NOT NULL DEFAULT 0, expire INTEGER)',
    )
    return passes(
      new RateLimiterSQLite({ ...options, keyPrefix: `${quota}`, points: quota, duration: WINDOW_MS / 1000 }),
    )
  },
}

const keys = clients(keyCount)
const decide = await contenders[contender](PLENTY)
const run = inFlightOf(decide, keys, inFlight)

answer({
  /** How many of 30 pass at quota 10, for each of two keys. */
  check: async () => passedOf30(await contenders[contender](10)),

  /** Every key once. */
  async fill() {
    for (let from = 0; from < keys.length; from += 512) await Promise.all(keys.slice(from, from + 512).map(decide))
  },

  run: ({ ms }) => run(ms),
})
