export { ipKeyGenerator } from './ip-key.js'
export { MemoryStore, type MemoryStoreOptions } from './memory-store.js'
export { rateLimit, rateLimit as default } from './middleware.js'
export type * from './options.js'
export type { SendCommand, SendCommandCluster } from './redis-store.js'
export { RedisStore, type RedisStoreOptions } from './redis-store.js'
export type { EnabledValidations, Logger, LoggerFn, Validations } from './validations.js'

/** A second in ms. */
export const SECOND = 1000
/** A minute in ms. */
export const MINUTE = 60 * SECOND
/** An hour in ms. */
export const HOUR = 60 * MINUTE
/** A day of 24 hours in ms. */
export const DAY = 24 * HOUR
