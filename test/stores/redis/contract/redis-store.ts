import type { Redis } from 'ioredis'
import { RedisStore } from '../../../../src/stores/redis/redis-store.js'
import type { ManualClock } from '../../../../src/testing.js'
import { RedisServer } from '../../../support/redis-server.js'
import type { StoreMaker } from '../../../support/store-benches.js'
import { describeStore, type StorePart } from '../../../support/store-contract.js'

const FEW = { promises: 3000, properties: 200 }

/** A part of what `RedisStore` promises, on a server of its own. More random cases: test/faults/redis-contract.test.ts. */
export function describeRedisStore(part: StorePart, cases: Pick<StoreMaker, 'promises' | 'properties'> = FEW): void {
  let redis: RedisServer
  let client: Redis
  let stores = 0
  const start = async () => {
    redis = await RedisServer.start()
    client = redis.bulkClient()
    await client.ping()
  }
  const make = (clock: ManualClock) => new RedisStore(client, { clock, prefix: `store ${stores++}` })
  describeStore('RedisStore', { make, ...cases, everyQuota: true, start, stop: () => redis.stop() }, [part])
}
