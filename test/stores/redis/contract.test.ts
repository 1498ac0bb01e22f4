import type { Redis } from 'ioredis'
import { RedisStore } from '../../../src/stores/redis/redis-store.js'
import { RedisServer } from '../../support/redis-server.js'
import { describeStore } from '../../support/store-contract.js'

let redis: RedisServer
let client: Redis
let stores = 0

describeStore('RedisStore', {
  make: clock => new RedisStore(client, { clock, prefix: `store ${stores++}` }),
  properties: 500,
  start: async () => {
    redis = await RedisServer.start()
    client = redis.client()
  },
  stop: () => redis.stop(),
})
