import { Redis } from 'ioredis5'
import { RedisStore } from '../../src/stores/redis/redis-store.js'
import { RedisServer } from '../support/redis-server.js'
import { describeStore } from '../support/store-contract.js'

let redis: RedisServer
let client: Redis
let stores = 0

describeStore('RedisStore over ioredis 5', {
  make: clock => new RedisStore(client, { clock, prefix: `store ${stores++}` }),
  promises: 500,
  properties: 50,
  start: async () => {
    redis = await RedisServer.start()
    client = redis.track(new Redis({ host: redis.host, port: redis.port }))
  },
  stop: () => redis.stop(),
})
