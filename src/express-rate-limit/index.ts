export type { EnabledValidations } from './check-name.js'
export type { Client, ClientRateLimitInfo, IncrementCallback, IncrementResponse, LegacyStore } from './client-info.js'
export type { SendCommand, SendCommandCluster } from './command-client.js'
export { ipKeyGenerator } from './ip-key.js'
export { MemoryStore, type MemoryStoreOptions } from './memory-store.js'
export { rateLimit, rateLimit as default } from './middleware.js'
export type {
  AugmentedRequest,
  DraftHeadersVersion,
  Logger,
  LoggerFn,
  Options,
  RateLimitExceededEventHandler,
  RateLimitInfo,
  RateLimitOptions,
  RateLimitReachedEventHandler,
  RateLimitRequestHandler,
  Store,
  ValueDeterminingMiddleware,
} from './options.js'
export { RedisStore, type RedisStoreOptions } from './redis-store.js'
export type { Validations } from './validation.js'

export const SECOND = 1000
export const MINUTE = 60 * SECOND
export const HOUR = 60 * MINUTE
export const DAY = 24 * HOUR
