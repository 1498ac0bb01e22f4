import * as glide22 from 'glide22'
import { RedisStore } from '../../src/index.js'
import type { RedisClient } from '../../src/redis/client.js'
import { valkeyGlide } from '../support/redis-clients.js'
import { describeSharedObjects } from '../support/shared-objects-contract.js'
import { describeStore } from '../support/store-contract.js'
import { testRedis } from '../support/test-redis.js'

// Two versions of GLIDE in one process mix up their messages, so the oldest one has a file of its own.
const kind = valkeyGlide(glide22, false)

const redis = testRedis()
let client: RedisClient
let stores = 0

describeStore('RedisStore over GLIDE 2.2', {
  make: clock => new RedisStore(client, { clock, prefix: `store ${stores++}` }),
  start: async () => {
    client = await kind.single(redis)
  },
})

describeSharedObjects({ 'GLIDE 2.2': kind })
