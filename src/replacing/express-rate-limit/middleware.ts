import type { NextFunction, Request, Response } from 'express'
import { leaveDecision, leaveOnRequest } from '../../http/adapters/express-request.js'
import { watchResponse } from '../../http/node-response.js'
import { after, isPromise, type SyncOrAsync } from '../../http/sync-or-async.js'
import { type Configuration, configurationOf, nameOf, optionsOf, skipNone } from './configuration.js'
import { type Count, type Counting, HitCounting, PolicyCounting, wantsPolicy } from './counting.js'
import { resetSeconds, setDraft6Headers, setDraft7Headers, setDraft8Headers, setLegacyHeaders } from './headers.js'
import type { Options, RateLimitInfo, RateLimitOptions, RateLimitRequestHandler, Store } from './options.js'

/**
 * Watches how a request ends, starting before it is counted, so that no event is missed. Once it is counted, gives it
 * back if its outcome requires that; only once, and not after its window has ended.
 */
class Outcome {
  readonly #ends: Array<'finish' | 'close' | 'error'> = []
  #giveBack: (() => Promise<void> | void) | undefined
  #resetTime: Date | undefined

  constructor(
    readonly config: Configuration,
    readonly request: Request,
    readonly response: Response,
  ) {
    response.once('finish', () => this.#ended('finish'))
    if (!config.skipFailedRequests) return
    response.once('close', () => this.#ended('close'))
    response.once('error', () => this.#ended('error'))
  }

  /** The request has been counted, in a window that ends at `resetTime`. */
  settle(resetTime: Date | undefined, giveBack: () => Promise<void> | void): void {
    this.#giveBack = giveBack
    // A copy, because the store may change its own object.
    this.#resetTime = resetTime && new Date(resetTime.getTime())
    for (const end of this.#ends) this.#judge(end)
  }

  #ended(end: 'finish' | 'close' | 'error'): void {
    if (this.#giveBack === undefined) this.#ends.push(end)
    else this.#judge(end)
  }

  #judge(end: 'finish' | 'close' | 'error'): void {
    if (end === 'finish') this.#ask()
    else if (end === 'error' || !this.response.writableEnded) this.#skip()
  }

  #ask(): void {
    const { requestWasSuccessful, skipFailedRequests, skipSuccessfulRequests, logger } = this.config
    const act = (success: boolean) => {
      if (success ? skipSuccessfulRequests : skipFailedRequests) this.#skip()
    }
    const fail = (error: unknown) => {
      logger.error(error, 'spillway/express-rate-limit: error in requestWasSuccessful callback.')
    }
    try {
      const success = requestWasSuccessful(this.request, this.response)
      if (isPromise(success)) success.then(act, fail)
      else act(success)
    } catch (error) {
      fail(error)
    }
  }

  #skip(): void {
    const giveBack = this.#giveBack
    if (giveBack === undefined) return
    // Later events of the response change nothing.
    this.#giveBack = () => {}
    if (this.#resetTime && Date.now() >= this.#resetTime.getTime()) return
    const fail = (error: unknown) => {
      this.config.logger.error(error, 'spillway/express-rate-limit: error from store during decrement.')
    }
    try {
      Promise.resolve(giveBack()).catch(fail)
    } catch (error) {
      fail(error)
    }
  }
}

const DONE = Promise.resolve()

/**
 * Middleware for Express 4 and 5 with the interface and behaviour of express-rate-limit 8. Options that seem wrong are
 * logged; throws `TypeError` for an invalid store or logger, and `PolicyError` for an invalid `algorithm` or `policy`.
 */
export function rateLimit(passedOptions?: RateLimitOptions): RateLimitRequestHandler {
  const passed = passedOptions ?? {}
  const config = configurationOf(passed)
  const { store, validations } = config
  validations.creationStack(store)
  validations.unsharedStore(store)
  if (!passed.store && passed.policy === undefined) validations.windowMs(config.windowMs)
  const options = optionsOf(config)
  initialize(store as Store, options, config)
  const counting = wantsPolicy(config) ? new PolicyCounting(config, passed) : new HitCounting(config)
  const limiter = new Limiter(config, options, counting)
  const middleware = (request: Request, response: Response, next: NextFunction): Promise<void> => {
    try {
      const done = limiter.handle(request, response, next)
      return isPromise(done) ? settled(done, next) : DONE
    } catch (error) {
      next(error)
      return DONE
    }
  }
  return Object.assign(middleware, {
    resetKey: (key: string) => counting.resetKey(key) as void,
    getKey: (key: string) => {
      if (counting.getKey !== undefined) return counting.getKey(key)
      throw new Error('The current store does not support the get/getKey method')
    },
  })
}

async function settled(done: PromiseLike<void>, next: NextFunction): Promise<void> {
  try {
    await done
  } catch (error) {
    next(error)
  }
}

/** A store's `init` is not awaited: requests may come before it is ready. */
function initialize(store: Store, options: Options, { logger }: Configuration): void {
  if (typeof store.init !== 'function') return
  try {
    const ready = store.init(options)
    const fail = (error: unknown) =>
      logger.error(error, 'spillway/express-rate-limit: async error during store initialization.')
    if (isPromise(ready)) ready.then(undefined, fail)
  } catch (error) {
    logger.error(error, 'spillway/express-rate-limit: error during store initialization.')
  }
}

const FAILED = Symbol('the store failed')

/** A request whose key was counted. */
interface Counted {
  readonly key: string
  readonly count: Count
  readonly outcome: Outcome | undefined
  readonly request: Request
  readonly response: Response
  readonly next: NextFunction
}

/** One limiter. Synchronous results are not awaited: one more promise costs a request as much as counting it. */
class Limiter {
  readonly #settles: boolean

  constructor(
    readonly config: Configuration,
    readonly options: Options,
    readonly counting: Counting,
  ) {
    this.#settles = config.skipFailedRequests || config.skipSuccessfulRequests
  }

  handle(request: Request, response: Response, next: NextFunction): SyncOrAsync<void> {
    const { skip, keyGenerator } = this.config
    const outcome = this.#settles ? new Outcome(this.config, request, response) : undefined
    return after(skip === skipNone ? false : skip(request, response), skipped => {
      if (skipped) return next()
      return after(keyGenerator(request, response), key =>
        after(this.#count(key, request, response), count => {
          if (count === FAILED) return next()
          return this.#judge({ key, count, outcome, request, response, next })
        }),
      )
    })
  }

  #count(key: string, request: Request, response: Response): SyncOrAsync<Count | typeof FAILED> {
    try {
      const count = this.counting.count(key, request, response)
      return isPromise(count) ? count.then(undefined, error => this.#failed(error)) : count
    } catch (error) {
      return this.#failed(error)
    }
  }

  #failed(error: unknown): typeof FAILED {
    const { passOnStoreError, logger } = this.config
    if (!passOnStoreError) throw error
    logger.error(error, 'spillway/express-rate-limit: error from store, allowing request without rate-limiting.')
    return FAILED
  }

  #judge(counted: Counted): SyncOrAsync<void> {
    const { key, count, outcome, request, response, next } = counted
    const { validations, limit, store, requestPropertyName } = this.config
    validations.positiveHits(count.totalHits)
    validations.singleCount(request, store, key)
    return after(count.limit ?? (typeof limit === 'function' ? limit(request, response) : limit), limit => {
      validations.limit(limit)
      const info = infoOf(limit, count, key)
      if (requestPropertyName === 'rateLimit') leaveDecision(request, info)
      else leaveOnRequest(request, requestPropertyName, info)
      return after(this.#tell(info, counted), () => {
        outcome?.settle(count.resetTime, () => count.giveBack())
        if (count.totalHits > info.limit) return this.#refuse(info, counted)
        return count.delayMs ? delay(counted, count.delayMs) : next()
      })
    })
  }

  #tell(info: RateLimitInfo, { count: { windowMs }, request, response }: Counted): SyncOrAsync<void> {
    const { legacyHeaders, standardHeaders, validations, identifier, ownIdentifier } = this.config
    if (response.headersSent) return
    if (legacyHeaders) setLegacyHeaders(response, info)
    if (!standardHeaders) return
    if (standardHeaders === 'draft-6') return setDraft6Headers(response, info, windowMs)
    if (standardHeaders !== 'draft-7' && standardHeaders !== 'draft-8') {
      return validations.headersDraftVersion(standardHeaders)
    }
    validations.headersResetTime(info.resetTime)
    if (standardHeaders === 'draft-7') return setDraft7Headers(response, info, windowMs)
    const own = identifier === ownIdentifier ? nameOf(info.limit, windowMs) : identifier
    return after(typeof own === 'function' ? own(request, response) : own, name => {
      if (!response.headersSent) setDraft8Headers(response, info, windowMs, name)
    })
  }

  #refuse(info: RateLimitInfo, { count: { windowMs }, request, response, next }: Counted): SyncOrAsync<void> {
    const { legacyHeaders, standardHeaders, retryAfter, handler } = this.config
    if (!legacyHeaders && !standardHeaders) return handler(request, response, next, this.options)
    return after(typeof retryAfter === 'function' ? retryAfter(request, response) : retryAfter, seconds => {
      if (!response.headersSent) {
        response.setHeader('Retry-After', (seconds ?? resetSeconds(info, windowMs)).toString())
      }
      return handler(request, response, next, this.options)
    })
  }
}

/** Under a leaky bucket: delays the request until its turn; a client that goes meanwhile gives its place back. */
async function delay({ count, response, next }: Counted, delayMs: number): Promise<void> {
  if (await watchResponse(response).stays(delayMs)) next()
  else await count.giveBack()
}

const CURRENT = { configurable: false, enumerable: false, value: 0 }

function infoOf(limit: number, { totalHits, resetTime }: Count, key: string): RateLimitInfo {
  const info = { limit, used: totalHits, remaining: Math.max(limit - totalHits, 0), resetTime, key }
  CURRENT.value = totalHits
  return Object.defineProperty(info, 'current', CURRENT)
}
