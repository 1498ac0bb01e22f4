export { ManualClock } from './limiter/core/manual-clock.js'
