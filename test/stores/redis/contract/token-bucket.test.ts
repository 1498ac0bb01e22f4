import { describeRedisStore } from './redis-store.js'

describeRedisStore('token-bucket')
