export { BurstyRateLimiter } from './bursty-rate-limiter.js'
export type { IRateLimiterOptions, IRateLimiterRedisOptions, IRateLimiterStoreOptions } from './options.js'
export { RateLimiterAbstract } from './rate-limiter-abstract.js'
export { RateLimiterCompatibleAbstract, type RateLimiterLike } from './rate-limiter-compatible-abstract.js'
export { RateLimiterInsuredAbstract } from './rate-limiter-insured-abstract.js'
export { RateLimiterMemory } from './rate-limiter-memory.js'
export { type IRateLimiterQueueOpts, RateLimiterQueue } from './rate-limiter-queue.js'
export { RateLimiterQueueError } from './rate-limiter-queue-error.js'
export { RateLimiterRedis } from './rate-limiter-redis.js'
export { RateLimiterRes } from './rate-limiter-res.js'
export { type BlockRange, RateLimiterStoreAbstract } from './rate-limiter-store-abstract.js'
export { RateLimiterUnion } from './rate-limiter-union.js'
export { type IRLWrapperBlackAndWhiteOptions, RLWrapperBlackAndWhite } from './rl-wrapper-black-and-white.js'
export type {
  IRateLimiterMemoryExport,
  IRateLimiterMemoryRecord,
  IRateLimiterRestoreBucketDetail,
  IRateLimiterRestoreDetailResponse,
  IRateLimiterRestoreResponse,
  IRateLimiterRestoreResult,
} from './snapshot.js'
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
