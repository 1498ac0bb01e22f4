import type { NextFunction, Request, RequestHandler, Response } from 'express'
import type { AlgorithmName, PolicyInput } from '../../limiter/core/limit.js'
import type { CallbackHitStore, HitStore, Hits } from '../../limiter/hit-store.js'
import type { Store as SpillwayStore } from '../../limiter/store.js'
import type { EnabledValidations, Logger } from './validations.js'

/** The count of a key and the end of its window. */
export type ClientRateLimitInfo = Hits

/** The result of a store's `increment`. */
export type IncrementResponse = ClientRateLimitInfo

/** As `ClientRateLimitInfo`, from a store that always knows when the window ends. */
export type Client = ClientRateLimitInfo & { resetTime: Date }

/** A store of express-rate-limit before version 6. */
export type LegacyStore = CallbackHitStore

/** The callback of a `LegacyStore`: an error, or the count and the end of the window. */
export type IncrementCallback = Parameters<LegacyStore['incr']>[1]

/** Returns a value for a request, synchronously or as a promise. */
export type ValueDeterminingMiddleware<T> = (request: Request, response: Response) => T | Promise<T>

/** Answers a refused request. */
export type RateLimitExceededEventHandler = (
  request: Request,
  response: Response,
  next: NextFunction,
  optionsUsed: Options,
) => void

/** The former type of `onLimitReached` in express-rate-limit. */
export type RateLimitReachedEventHandler = (request: Request, response: Response, optionsUsed: Options) => void

/** Which draft of the header fields `standardHeaders` follows. */
export type DraftHeadersVersion = 'draft-6' | 'draft-7' | 'draft-8'

/**
 * The options of express-rate-limit 8, with their names, defaults and meaning; `algorithm` and `policy` are additions.
 */
export type Options = {
  /** Length of the window in ms; default 60 000. It starts at a key's first request. */
  windowMs: number
  /** Requests allowed in a window; default 5. 0 refuses all. */
  limit: number | ValueDeterminingMiddleware<number>
  /**
   * Body of a refusal: text, an object (sent as JSON), or a function that gives one of them. Default 'Too many
   * requests, please try again later.'
   */
  // biome-ignore lint/suspicious/noExplicitAny: as express-rate-limit declares it
  message: any | ValueDeterminingMiddleware<any>
  /** Status of a refusal; default 429. */
  statusCode: number
  /** Default true: `X-RateLimit-Limit`, `-Remaining` and `-Reset`. */
  legacyHeaders: boolean
  /** Default false. true is 'draft-6'. */
  standardHeaders: boolean | DraftHeadersVersion
  /** The limit's name in headers of draft 8; default `{limit}-in-{window}`, like `5-in-1min`. */
  identifier: string | ValueDeterminingMiddleware<string>
  /** The value of `Retry-After`, in seconds; default: the time to the end of the window. Changes nothing else. */
  retryAfter?: number | ValueDeterminingMiddleware<number>
  /** The request property for the `RateLimitInfo`; default 'rateLimit'. */
  requestPropertyName: string
  /** Default false. true: a request that failed is given back once its outcome is known. */
  skipFailedRequests: boolean
  /** Default false. true: a request that succeeded is given back once its outcome is known. */
  skipSuccessfulRequests: boolean
  /** The key of a request; default: the client's address by `ipKeyGenerator`. */
  keyGenerator: ValueDeterminingMiddleware<string>
  /** The bits of an IPv6 address that identify a client: 32 to 64, default 56; false: all of them. */
  ipv6Subnet: number | ValueDeterminingMiddleware<number> | false
  /** Answers a refused request; default: with `statusCode` and `message`. */
  handler: RateLimitExceededEventHandler
  /** true: this request is not counted, like `req => req.path === '/health'`. Default: all are. */
  skip: ValueDeterminingMiddleware<boolean>
  /** Which requests count as successful for the two `skip…Requests` options; default: a status below 400. */
  requestWasSuccessful: ValueDeterminingMiddleware<boolean>
  /** Default: a `MemoryStore` of its own. */
  store: Store | LegacyStore
  /**
   * Default true: all checks, each once. false disables all; a record disables checks by name, like `{ ip: false }`.
   */
  validate: boolean | EnabledValidations
  /** Old name of `legacyHeaders`. */
  headers?: boolean
  /** Old name of `limit`. */
  max?: number | ValueDeterminingMiddleware<number>
  /** What happens when the store fails. Default false: its error goes to `next`; true: the request passes. */
  passOnStoreError: boolean
  /** Receives warnings and errors by `warn` and `error`. Default: the console. */
  logger: Logger
  /**
   * Default 'fixed-window', as in express-rate-limit. Another one, like 'sliding-window' or 'token-bucket', counts
   * differently. Refused requests then spend nothing. Requires a store of spillway, or one of this module.
   */
  algorithm?: AlgorithmName
  /**
   * Instead of `limit`, `windowMs` and `algorithm`: '10/1s; 1000/1h token-bucket', or a function that returns a policy.
   */
  policy?: PolicyInput | ValueDeterminingMiddleware<PolicyInput>
}

/** The options that `rateLimit` takes: those of express-rate-limit, and stores of spillway as well. */
export type RateLimitOptions = Partial<Omit<Options, 'store'>> & {
  /** The store of the counts; default, also for null: a `MemoryStore` of its own. */
  store?: Options['store'] | SpillwayStore | null
}

/** A store of express-rate-limit. */
export type Store = Omit<HitStore, 'init'> & {
  /** Called once with the limiter's options. Not awaited; its errors are logged. */
  init?: (options: Options) => void | Promise<void>
  /** Closes timers and connections of the store. */
  shutdown?: () => Promise<void> | void
  /** true: other instances never count the same keys. */
  localKeys?: boolean
  /** The beginning that the store puts before each key. */
  prefix?: string
}

/** The property that a limiter sets on a request. Has `current` as well, the old name of `used`. */
export type RateLimitInfo = {
  /** Requests allowed in a window. */
  limit: number
  /** Requests counted in the current window: more than `limit` for a refused request. */
  used: number
  /** Requests left in the window, ≥ 0. */
  remaining: number
  /** When the window ends; undefined if the store does not know. */
  resetTime: Date | undefined
  /** The key that was counted. */
  key: string
}

/** Without the type that spillway's native middleware declares for the same property. */
export type AugmentedRequest = Omit<Request, 'rateLimit'> & { [key: string]: RateLimitInfo }

/** The middleware that `rateLimit` returns. */
export type RateLimitRequestHandler = RequestHandler & {
  /** Deletes the count of a key. */
  resetKey: (key: string) => void
  /** The count of a key and the end of its window. Throws if the store cannot tell. */
  getKey: NonNullable<Store['get']>
}
