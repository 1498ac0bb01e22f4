// What `require('spillway/express-rate-limit')` gives: the function itself, with all other names as its properties.
import entry = require('./index.js')

function rateLimit(passedOptions?: entry.RateLimitOptions): entry.RateLimitRequestHandler {
  return entry.rateLimit(passedOptions)
}

// Types have no other way into what `export =` gives.
declare namespace rateLimit {
  export { rateLimit as default, rateLimit }
  export const ipKeyGenerator: typeof entry.ipKeyGenerator
  export const MemoryStore: typeof entry.MemoryStore
  export const RedisStore: typeof entry.RedisStore
  export const SECOND: number
  export const MINUTE: number
  export const HOUR: number
  export const DAY: number
  export type MemoryStore = entry.MemoryStore
  export type RedisStore = entry.RedisStore
  export type AugmentedRequest = entry.AugmentedRequest
  export type Client = entry.Client
  export type ClientRateLimitInfo = entry.ClientRateLimitInfo
  export type DraftHeadersVersion = entry.DraftHeadersVersion
  export type EnabledValidations = entry.EnabledValidations
  export type IncrementCallback = entry.IncrementCallback
  export type IncrementResponse = entry.IncrementResponse
  export type LegacyStore = entry.LegacyStore
  export type Logger = entry.Logger
  export type LoggerFn = entry.LoggerFn
  export type MemoryStoreOptions = entry.MemoryStoreOptions
  export type Options = entry.Options
  export type RateLimitExceededEventHandler = entry.RateLimitExceededEventHandler
  export type RateLimitInfo = entry.RateLimitInfo
  export type RateLimitOptions = entry.RateLimitOptions
  export type RateLimitReachedEventHandler = entry.RateLimitReachedEventHandler
  export type RateLimitRequestHandler = entry.RateLimitRequestHandler
  export type RedisStoreOptions = entry.RedisStoreOptions
  export type SendCommand = entry.SendCommand
  export type SendCommandCluster = entry.SendCommandCluster
  export type Store = entry.Store
  export type Validations = entry.Validations
  export type ValueDeterminingMiddleware<T> = entry.ValueDeterminingMiddleware<T>
}

Object.assign(rateLimit, entry, { default: rateLimit, rateLimit })

export = rateLimit
