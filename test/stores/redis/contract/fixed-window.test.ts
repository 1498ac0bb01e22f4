import { describeRedisStore } from './redis-store.js'

describeRedisStore('fixed-window')
