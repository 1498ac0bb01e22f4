// Mutual exclusion over all processes, safe even when a lease is lost: the store refuses writes with an old token.
// Needs a Redis: REDIS_URL, by default redis://127.0.0.1:6379.
//
//   node --import tsx examples/mutex.ts
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { Semaphore } from 'spillway'

const redisUrl = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379'
// A Redis that is not there at first is a mistake; one that goes away comes back.
let isThere = false
const redis = new Redis(redisUrl, { lazyConnect: true, retryStrategy: () => (isThere ? 100 : null) })
redis.on('error', () => {})
try {
  await redis.connect()
  isThere = true
} catch {
  fail(`No Redis at ${redisUrl}: start one, or set REDIS_URL`)
}

/** Stands for the resource: a database row, a file, a device. It remembers the greatest token that it has seen. */
const store = {
  text: 'nothing yet',
  newest: 0n,
  write(token: bigint, text: string): boolean {
    if (token < this.newest) return false
    this.newest = token
    this.text = text
    return true
  },
}

// A mutex is a semaphore with one permit.
const mutex = new Semaphore(redis, 'example-mutex', { permits: 1, idleTtl: '1m' })

// Two tasks that would overwrite each other's result if they ran at the same time.
const task = async (name: string) => {
  await using lease = await mutex.acquire()
  console.log(`${name} works`)
  await sleep(50)
  console.log(`${name} ${store.write(lease.token, name) ? 'has written' : 'was refused'}`)
}
// `acquire` rejects if Redis does not answer for five seconds: then nobody knows who holds the mutex.
await Promise.all([task('ada'), task('bob')]).catch(error => fail(error.message))

// A process that was paused for longer than its lease. It does not know yet that another task holds the mutex.
const paused = await mutex.acquire({ lease: '100ms', renew: false }).catch(error => fail(error.message))
await sleep(150)
await mutex.use(async lease => void store.write(lease.token, 'carol')).catch(error => fail(error.message))
console.log(`the paused one still holds its lease: ${paused.held}`)
console.log(
  `its late write is ${store.write(paused.token, 'late') ? 'taken' : 'refused'}; the store says "${store.text}"`,
)

await mutex.close()
redis.disconnect()

function fail(why: string): never {
  console.error(why)
  process.exit(1)
}
