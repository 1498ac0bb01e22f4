export type { Clock } from './clock.js'
export type { Decision, DecisionSource, Verdict } from './decision.js'
export { type Duration, parseDuration } from './duration.js'
export {
  CostError,
  LeaseLostError,
  NotInitializedError,
  PolicyError,
  SpillwayError,
  StaleDeliveryError,
  StoreError,
  TimeoutError,
} from './errors.js'
export type { StoreFailure } from './failure.js'
export {
  type AlgorithmName,
  type Limit,
  type LimitOptions,
  type Policy,
  type PolicyInput,
  parsePolicy,
} from './limit.js'
export { RateLimiter, type RateLimiterOptions } from './limiter.js'
export type { LimiterKey } from './limiter-key.js'
export type { Observer } from './observer.js'
export type { RedisClient } from './redis/client.js'
export type { Backoff } from './shared/backoff.js'
export type { Consumer, Limiter } from './shared/consumer.js'
export type { DeadLetter } from './shared/dead-letters.js'
export { type ConsumeOptions, DelayQueue, type QueueStats, type ReceiveOptions } from './shared/delay-queue.js'
export type { Codec, DelayQueueOptions, PushOptions } from './shared/delay-queue-options.js'
export type { Delivery } from './shared/delivery.js'
export type { Lease } from './shared/lease.js'
export type { RateConfig, RateOptions } from './shared/rate-options.js'
export { type AcquireOptions, type LeaseInfo, Semaphore, type SemaphoreOptions } from './shared/semaphore.js'
export { SharedRateLimiter, type SharedRateLimiterOptions } from './shared/shared-rate-limiter.js'
export type { Booking, Charge, Store } from './store.js'
export { MemoryStore, type MemoryStoreOptions } from './stores/memory.js'
export { RedisStore, type RedisStoreOptions } from './stores/redis.js'
export type { WaitOptions } from './waiting/wait.js'
