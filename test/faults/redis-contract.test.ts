import { ALGORITHM_NAMES } from '../../src/core/limit.js'
import { describeRedisStore } from '../stores/redis/contract/redis-store.js'

// As many random cases as on memory.
for (const algorithm of ALGORITHM_NAMES) describeRedisStore(algorithm, { promises: 11_500, properties: 2000 })
