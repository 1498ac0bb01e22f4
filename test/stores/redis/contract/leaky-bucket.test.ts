import { describeRedisStore } from './redis-store.js'

describeRedisStore('leaky-bucket')
