export type {
  IRateLimiterMemoryExport,
  IRateLimiterMemoryRecord,
  IRateLimiterRestoreBucketDetail,
  IRateLimiterRestoreDetailResponse,
  IRateLimiterRestoreResponse,
  IRateLimiterRestoreResult,
} from './memory.js'
export { RateLimiterMemory } from './memory.js'
export { type IRateLimiterQueueOpts, RateLimiterQueue, RateLimiterQueueError } from './queue.js'
export type {
  IRateLimiterOptions,
  IRateLimiterRedisOptions,
  IRateLimiterStoreOptions,
} from './rate-limiter-abstract.js'
export { RateLimiterAbstract, RateLimiterCompatibleAbstract, type RateLimiterLike } from './rate-limiter-abstract.js'
export { RateLimiterRes } from './rate-limiter-res.js'
export { RateLimiterRedis } from './redis.js'
export { RateLimiterInsuredAbstract, RateLimiterStoreAbstract } from './store-limiter.js'
export {
  BurstyRateLimiter,
  type IRLWrapperBlackAndWhiteOptions,
  RateLimiterUnion,
  RLWrapperBlackAndWhite,
} from './wrappers.js'
/** The result that every limiter of rate-limiter-flexible may return for a key. */
export interface IRateLimiterRes {
  /** In how many ms points are free again. */
  msBeforeNext?: number
  /** Points that are left. */
  remainingPoints?: number
  /** Points that were consumed in the present duration. */
  consumedPoints?: number
  /** True if this call began the present duration. */
  isFirstInDuration?: boolean
}
