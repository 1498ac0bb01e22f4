import { describeRedisStore } from '../../support/redis-store-contract.js'

// agreement.test.ts compares it with memory.
describeRedisStore({ agrees: true, promises: 3000, properties: 200 })
