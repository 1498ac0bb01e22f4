import { beforeEach, describe, expect, test } from '@jest/globals'
import { runChild } from '../support/child.js'
import { testRedis } from '../support/test-redis.js'
import { LOCAL_SUITE, REDIS_SUITE, runSuite, SUITE_OVER_REDIS } from './bottleneck-suite.js'

const MINUTE = 60_000

describe('the tests of bottleneck 2.19.5 itself', () => {
  const server = testRedis()
  const over = (datastore: string) => ({
    DATASTORE: datastore,
    REDIS_HOST: server.host,
    REDIS_PORT: String(server.port),
  })

  beforeEach(() => server.client().flushall())

  test.each(['bottleneck.js', 'bottleneck/light.js'])(
    'in one process all 75 pass with %s',
    async entry => {
      expect(await runSuite(entry, LOCAL_SUITE)).toEqual({ passed: 75, failures: [] })
    },
    3 * MINUTE,
  )

  test.each(['ioredis', 'redis'])(
    'the 73 of them that do not count from ready() pass over %s',
    async datastore => {
      expect(await runSuite('bottleneck.js', SUITE_OVER_REDIS, over(datastore))).toEqual({
        passed: 73,
        failures: [],
      })
    },
    3 * MINUTE,
  )

  test(
    'the 26 about clusters and clients that ask behaviour pass',
    async () => {
      expect(await runSuite('bottleneck.js', REDIS_SUITE, over('ioredis'))).toEqual({ passed: 26, failures: [] })
    },
    3 * MINUTE,
  )
})

test('100 000 keys of a Group that come and go leave the heap as it was', async () => {
  const { code, stdout, stderr } = await runChild(
    `import { Bottleneck } from './src/replacing/bottleneck/light.js'
       const group = new Bottleneck.Group({ maxConcurrent: 1, reservoir: 5, reservoirRefreshInterval: 1000, reservoirRefreshAmount: 5, timeout: 200 })
       const round = async (name: string) => {
         for (let i = 0; i < 100_000; i += 1000) {
           await Promise.all(Array.from({ length: 1000 }, (_, j) => group.key(name + (i + j)).schedule(async () => i)))
         }
         while (group.keys().length > 0) await new Promise(resolve => setTimeout(resolve, 100))
         await new Promise(resolve => setTimeout(resolve, 100))
         globalThis.gc!()
         return process.memoryUsage().heapUsed
       }
       const before = await round('a')
       const after = await round('b')
       console.log(Math.round((after - before) / 1024))`,
    { flags: ['--expose-gc'], timeoutMs: 60_000 },
  )
  expect([code, stderr]).toEqual([0, ''])
  // kB. One limiter that stayed for each key would be 100 000 times 2 kB.
  expect(Number(stdout)).toBeLessThan(4000)
}, 70_000)
