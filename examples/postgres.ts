// Two processes share one quota over PostgreSQL: together they admit exactly 20 of 60 requests.
// Needs a PostgreSQL: DATABASE_URL, by default postgres://postgres@127.0.0.1:5432/postgres.
//
//   node --import tsx examples/postgres.ts
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Pool } from 'pg'
import { RateLimiter } from 'spillway'
import { PostgresStore } from 'spillway/postgres'

const url = process.env.DATABASE_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres'
// A small pool of its own: one connection is enough, and the queries of the service cannot take it away.
const pool = new Pool({ connectionString: url, max: 2 })
// Without a listener, pg would end the process when the server closes an idle connection.
pool.on('error', error => console.error(error.message))
const store = new PostgresStore(pool)
const limiter = new RateLimiter({ policy: '20/1m', name: 'example', store, deadline: '1s' })

try {
  // In a larger service a migration does this, with what `npx spillway sql postgres` prints.
  await store.createTable()
} catch {
  console.error(`No PostgreSQL at ${new URL(url).host}: start one, or set DATABASE_URL`)
  process.exit(1)
}

if (process.send) {
  const decisions = await Promise.all(Array.from({ length: 30 }, () => limiter.consume('ada')))
  process.send(decisions.filter(({ allowed }) => allowed).length)
} else {
  await limiter.reset('ada')
  const children = [1, 2].map(() => fork(fileURLToPath(import.meta.url)))
  const admitted = await Promise.all(children.map(async child => (await once(child, 'message'))[0] as number))
  console.log(`${admitted.join(' and ')} admitted, ${admitted[0] + admitted[1]} together.`)
}
await store.close()
await pool.end()
process.disconnect?.()
