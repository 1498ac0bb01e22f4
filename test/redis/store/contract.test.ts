import type { Redis } from 'ioredis'
import { RedisStore } from '../../../src/index.js'
import { describeStore } from '../../support/store-contract.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
let client: Redis
let stores = 0

describeStore('RedisStore', {
  whole: true,
  make: clock => new RedisStore(client, { clock, prefix: `store ${stores++}` }),
  start: async () => {
    client = redis.bulkClient()
  },
})
