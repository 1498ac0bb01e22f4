import { describeRedisStore } from '../../test/support/redis-store-contract.js'

// As many random cases as on memory.
describeRedisStore({ promises: 11_500, properties: 2000 })
