import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import { RedisServer } from './redis-server.js'
import type { StoreMaker } from './store-benches.js'
import { describeStore } from './store-contract.js'

/** All that `RedisStore` promises, over ioredis on a server of its own. */
export function describeRedisStore(cases: Pick<StoreMaker, 'agrees' | 'promises' | 'properties'>): void {
  let redis: RedisServer
  let client: Redis
  let stores = 0
  describeStore('RedisStore', {
    ...cases,
    whole: true,
    make: clock => new RedisStore(client, { clock, prefix: `store ${stores++}` }),
    start: async () => {
      redis = await RedisServer.start()
      client = redis.bulkClient()
      await client.ping()
    },
    stop: () => redis.stop(),
  })
}
