import type { NextFunction, Request, Response } from 'express'
import { leaveOnRequest } from '../../http/adapters/express-request.js'
import { watchResponse } from '../../http/node-response.js'
import { after, isPromise, type SyncOrAsync } from '../../http/sync-or-async.js'
import { optionsOf } from './configuration.js'
import { resetSeconds, setLegacyHeaders, setStandardHeaders } from './headers.js'
import type { Options, RateLimitInfo, RateLimitOptions, RateLimitRequestHandler, Store } from './options.js'
import { type Count, type Counter, hitCounter, policyCounter, wantsPolicy } from './policy.js'
import type { Validations } from './validations.js'

const DONE = Promise.resolve()

/**
 * Middleware for Express 4 and 5 with the interface and behaviour of express-rate-limit 8. Options that seem wrong are
 * logged; throws `TypeError` for an invalid store or logger, and `PolicyError` for an invalid `algorithm` or `policy`.
 */
export function rateLimit(passedOptions?: RateLimitOptions): RateLimitRequestHandler {
  const passed = passedOptions ?? {}
  const { options, validations } = optionsOf(passed)
  const store = options.store as Store
  validations.creationStack(store)
  validations.unsharedStore(store)
  if (!passed.store && passed.policy === undefined) validations.windowMs(options.windowMs)
  initialize(store, options)
  const counter = wantsPolicy(options) ? policyCounter(options, passed) : hitCounter(store)
  const limiter = new Limiter(options, validations, counter)
  const middleware = (request: Request, response: Response, next: NextFunction): Promise<void> => {
    try {
      const done = limiter.handle(request, response, next)
      return isPromise(done)
        ? Promise.resolve(done).then(
            () => {},
            error => void next(error),
          )
        : DONE
    } catch (error) {
      next(error)
      return DONE
    }
  }
  return Object.assign(middleware, {
    resetKey: (key: string) => counter.resetKey(key) as void,
    getKey: (key: string) => {
      if (counter.getKey !== undefined) return counter.getKey(key)
      throw new Error('The current store does not support the get/getKey method')
    },
  })
}

/** A store's `init` is not awaited: requests may come before it is ready. */
async function initialize(store: Store, options: Options): Promise<void> {
  let what = 'error'
  try {
    const ready = store.init?.(options)
    what = 'async error'
    await ready
  } catch (error) {
    options.logger.error(error, `spillway/express-rate-limit: ${what} during store initialization.`)
  }
}

/** A request whose key was counted. */
interface Counted {
  readonly key: string
  readonly count: Count
  readonly request: Request
  readonly response: Response
  readonly next: NextFunction
}

/** One limiter. Synchronous results are not awaited: one more promise costs a request as much as counting it. */
class Limiter {
  constructor(
    readonly options: Options,
    readonly validations: Validations,
    readonly counter: Counter,
  ) {}

  handle(request: Request, response: Response, next: NextFunction): SyncOrAsync<void> {
    const { skip, keyGenerator, skipFailedRequests, skipSuccessfulRequests } = this.options
    // Before the request is counted, so that no event is missed.
    const end = skipFailedRequests || skipSuccessfulRequests ? endOf(response, skipFailedRequests) : undefined
    return after(skip(request, response), skipped => {
      if (skipped) return next()
      return after(keyGenerator(request, response), key =>
        after(this.#count(key, request, response), count => {
          if (count === undefined) return next()
          return this.#judge({ key, count, request, response, next }, end)
        }),
      )
    })
  }

  /** Undefined: the store failed, and the request passes. */
  #count(key: string, request: Request, response: Response): SyncOrAsync<Count | undefined> {
    const fail = (error: unknown): undefined => {
      const { passOnStoreError, logger } = this.options
      if (!passOnStoreError) throw error
      logger.error(error, 'spillway/express-rate-limit: error from store, allowing request without rate-limiting.')
    }
    try {
      const count = this.counter.count(key, request, response)
      return isPromise(count) ? count.then(undefined, fail) : count
    } catch (error) {
      return fail(error)
    }
  }

  #judge(counted: Counted, end: Promise<End> | undefined): SyncOrAsync<void> {
    const { key, count, request, response, next } = counted
    const { options, validations, counter } = this
    validations.positiveHits(count.totalHits)
    validations.singleCount(request, options.store, key)
    return after(count.limit ?? given(options.limit, request, response), limit => {
      validations.limit(limit)
      const info = infoOf(limit, count, key)
      leaveOnRequest(request, options.requestPropertyName, info)
      return after(this.#tell(info, counted), () => {
        if (end !== undefined) this.#settle(counted, end)
        if (count.totalHits > limit) return this.#refuse(info, counted)
        if (!count.delayMs) return next()
        // Under a leaky bucket: until its turn; a client that goes meanwhile gives its place back.
        const stays = watchResponse(response).stays(count.delayMs)
        return stays.then(stayed => (stayed ? next() : counter.giveBack(key, count, Number.NaN)))
      })
    })
  }

  #tell(info: RateLimitInfo, { count, request, response }: Counted): SyncOrAsync<void> {
    const { legacyHeaders, standardHeaders: draft, identifier, windowMs } = this.options
    if (response.headersSent) return
    if (legacyHeaders) setLegacyHeaders(response, info)
    if (!draft) return
    const span = count.windowMs ?? windowMs
    const write = (name?: string) => {
      if (draft === 'draft-7' || draft === 'draft-8') this.validations.headersResetTime(info.resetTime)
      if (!response.headersSent) setStandardHeaders(response, draft, info, span, name)
    }
    return draft === 'draft-8' ? after(given(identifier, request, response, span), write) : write()
  }

  #refuse(info: RateLimitInfo, { count, request, response, next }: Counted): SyncOrAsync<void> {
    const { options } = this
    const { legacyHeaders, standardHeaders, retryAfter, handler, windowMs } = options
    if (!legacyHeaders && !standardHeaders) return handler(request, response, next, options)
    return after(given(retryAfter, request, response), seconds => {
      const own = resetSeconds(info, count.windowMs ?? windowMs)
      if (!response.headersSent) response.setHeader('Retry-After', (seconds ?? own).toString())
      return handler(request, response, next, options)
    })
  }

  /** Gives the request back if its outcome requires that. */
  async #settle({ key, count, request, response }: Counted, end: Promise<End>): Promise<void> {
    const { requestWasSuccessful, skipFailedRequests, skipSuccessfulRequests, logger } = this.options
    // Read now, because the store may change its own object.
    const endsAt = Number(count.resetTime || Number.NaN)
    const failed = (await end) === 'failure'
    let what = 'error in requestWasSuccessful callback.'
    try {
      const success = !failed && (await requestWasSuccessful(request, response))
      what = 'error from store during decrement.'
      const skips = success ? skipSuccessfulRequests : skipFailedRequests
      if (skips) await this.counter.giveBack(key, count, endsAt)
    } catch (error) {
      logger.error(error, `spillway/express-rate-limit: ${what}`)
    }
  }
}

type End = 'finish' | 'failure'

/** How a response ends: it is finished, or, if failures count, it is lost or fails. */
function endOf(response: Response, failures: boolean): Promise<End> {
  return new Promise(resolve => {
    response.once('finish', () => resolve('finish'))
    if (!failures) return
    response.once('error', () => resolve('failure'))
    response.once('close', () => {
      if (!response.writableEnded) resolve('failure')
    })
  })
}

/** An option, or what its function gives. Only our own default of `identifier` takes `more`. */
function given<Value extends number | string | undefined>(
  option: Value | ((request: Request, response: Response) => SyncOrAsync<Value>),
  request: Request,
  response: Response,
  ...more: number[]
): SyncOrAsync<Value> {
  return typeof option === 'function' ? option(request, response, ...(more as [])) : option
}

const CURRENT = { configurable: false, enumerable: false, value: 0 }

function infoOf(limit: number, { totalHits, resetTime }: Count, key: string): RateLimitInfo {
  const info = { limit, used: totalHits, remaining: Math.max(limit - totalHits, 0), resetTime, key }
  CURRENT.value = totalHits
  return Object.defineProperty(info, 'current', CURRENT)
}
