import { describeRedisStore } from './redis-store.js'

describeRedisStore('any algorithm')
