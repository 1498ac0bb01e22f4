// Two processes of one machine share one quota in a file, without a server: together they admit exactly 20 of 60
// requests. Needs Node 22.13 or later, or better-sqlite3. LIMITS_DB is the file, by default limits.db in the folder of
// temporary files.
//
//   node --import tsx examples/sqlite.ts
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PolicyError, RateLimiter } from 'spillway'
import { SqliteStore } from 'spillway/sqlite'

const store = open(process.env.LIMITS_DB ?? join(tmpdir(), 'limits.db'))
const limiter = new RateLimiter({ policy: '20/1m', name: 'example', store, deadline: '1s' })

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
process.disconnect?.()

function open(path: string): SqliteStore {
  try {
    return new SqliteStore(path)
  } catch (error) {
    if (!(error instanceof PolicyError)) throw error
    // Node before 22.13, and no better-sqlite3.
    console.error(error.message)
    process.exit(1)
  }
}
