// Two limiters of one id, as in two processes, fetch pages: at most two at once in both together, by priority; a page
// that fails is fetched again. Needs a Redis: REDIS_URL, by default redis://127.0.0.1:6379.
//
//   node --import tsx examples/bottleneck.ts
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import Bottleneck from 'spillway/bottleneck'

const redisUrl = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379'
const limiters = [1, 2].map(() => {
  const connection = new Bottleneck.IORedisConnection({ client: new Redis(redisUrl) })
  return new Bottleneck({ id: 'example-pages', connection, maxConcurrent: 2, clearDatastore: true })
})
await Promise.all(limiters.map(limiter => limiter.ready()))

let running = 0
let most = 0
const fetched: string[] = []
const failed = new Set<string>()

async function fetchPage(page: string): Promise<void> {
  most = Math.max(most, ++running)
  await sleep(20)
  running--
  if (page === 'page 3' && !failed.has(page)) {
    failed.add(page)
    throw new Error('503')
  }
  fetched.push(page)
}

for (const limiter of limiters) {
  limiter.on('error', error => console.error(error.message))
  // The number of ms until the job is executed again; nothing: it has failed.
  limiter.on('failed', (_error, { args: [page], retryCount }) => {
    console.log(`${page} has failed ${retryCount === 0 ? 'once' : 'again'}`)
    return retryCount === 0 ? 25 : undefined
  })
}
const pages = [1, 2, 3, 4, 5, 6, 7].map(page => limiters[page % 2].schedule(fetchPage, `page ${page}`))
const urgent = limiters[0].schedule({ priority: 0 }, fetchPage, 'the urgent page')
await Promise.all([...pages, urgent])

console.log(`${fetched.length} pages, never more than ${most} at once`)
console.log(`the urgent one was ${fetched.at(-1) === 'the urgent page' ? '' : 'not '}the last`)
await Promise.all(limiters.map(limiter => limiter.disconnect()))
process.exit()
