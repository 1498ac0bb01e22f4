import { describeRedisStore } from '../../support/redis-store-contract.js'

// More random cases: verification/faults/redis-contract.test.ts.
describeRedisStore({ promises: 3000, properties: 200 })
