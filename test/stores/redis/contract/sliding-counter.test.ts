import { describeRedisStore } from './redis-store.js'

describeRedisStore('sliding-counter')
