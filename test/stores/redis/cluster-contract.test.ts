import type { Cluster } from 'ioredis'
import { RedisStore } from '../../../src/stores/redis/redis-store.js'
import { RedisCluster } from '../../support/redis-cluster.js'
import { describeStore } from '../../support/store-contract.js'

let cluster: RedisCluster
let client: Cluster
let stores = 0

describeStore('RedisStore on a cluster', {
  make: clock => new RedisStore(client, { clock, prefix: `store ${stores++}` }),
  promises: 500,
  properties: 50,
  start: async () => {
    cluster = await RedisCluster.start()
    client = cluster.client()
    await client.ping()
  },
  stop: () => cluster.stop(),
})
