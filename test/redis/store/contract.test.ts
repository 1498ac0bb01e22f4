import { describeRedisStore } from '../../support/redis-store-contract.js'

describeRedisStore({ promises: 3000, properties: 200 })
