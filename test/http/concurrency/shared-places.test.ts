import { expect, test } from '@jest/globals'
import { SharedPlaces } from '../../../src/http/concurrency/shared-places.js'
import { SpillwayError } from '../../../src/limiter/core/errors.js'
import { guardRedis } from '../../../src/redis/guarded-redis.js'
import { runChild } from '../../support/child.js'
import { eventually } from '../../support/eventually.js'
import * as lines from '../../support/lines.js'
import { testRedis } from '../../support/test-redis.js'

const server = testRedis()

test('one long request does not keep the places of all later keys in memory', async () => {
  const { stdout, stderr, code } = await runChild(
    `import { Redis } from 'ioredis'
     import { guardRedis } from './src/redis/guarded-redis.ts'
     import { SharedPlaces } from './src/http/concurrency/shared-places.ts'
     const client = new Redis(${server.port})
     const guarded = guardRedis(client, 10_000, undefined, { name: 'test', meanwhile: 'nothing is shared' })
     const places = new SharedPlaces({ client, prefix: 'p', name: 'n', permits: 2, leaseMs: 30_000, guarded })
     const held = async () => {
       // What is collected is told in a later turn, and lets go of more.
       for (let i = 0; i < 5; i++) { gc(); await new Promise(resolve => setImmediate(resolve)) }
       return process.memoryUsage().heapUsed
     }
     const visit = async (from, to) => {
       for (let i = from; i < to; i += 100) {
         await Promise.all(Array.from({ length: 100 }, async (_, j) => (await places.enter(\`=\${i + j}\`)).leave()))
       }
       await client.ping()
     }
     const long = await places.enter('=long')
     await visit(0, 1000)
     const before = await held()
     await visit(1000, 4000)
     // What has left is told to Redis together, a little later, and let go of then.
     const growth = async () => Math.round((await held() - before) / 3000)
     for (const end = performance.now() + 10_000; await growth() >= 500 && performance.now() < end;) {
       await new Promise(resolve => setTimeout(resolve, 100))
     }
     console.log(await growth())
     long.leave()
     await places.close()
     client.disconnect()`,
    { flags: ['--expose-gc'], timeoutMs: 60_000 },
  )
  expect([stderr, code]).toEqual(['', 0])
  // A semaphore takes about 3 kB.
  expect(Number(stdout)).toBeLessThan(500)
}, 30_000)

test('closed, they reject who waits, let nobody in who would have waited, and know that Redis answers', async () => {
  const place = () => {
    const client = server.client()
    const guarded = guardRedis(client, 5000, undefined, { name: 'test', meanwhile: 'nothing is shared' })
    const options = { client, prefix: 'closed', name: 'n', permits: 1, leaseMs: 30_000, guarded }
    return { places: new SharedPlaces(options), guarded }
  }
  const [one, other] = [place(), place()]
  const inside = await one.places.enter('=k')
  const { signal } = new AbortController()
  const waiting = other.places.wait('=k', 10_000, signal)
  await lines.inLine(server.client(), 'closed*:line', 1)
  const [outcome] = await Promise.all([Promise.allSettled([waiting]), other.places.close()])
  expect(outcome).toEqual([{ status: 'rejected', reason: new SpillwayError('concurrencyLimit was closed') }])
  expect(await other.places.enter('=k')).toBeNull()
  expect(other.guarded.failing).toBe(false)
  inside?.leave()
  await eventually('the place is free', async () => {
    const place = await other.places.enter('=k')
    place?.leave()
    return place !== null
  })
  await Promise.all([one.places.close(), other.places.close()])
})
