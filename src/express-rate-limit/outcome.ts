import type { Request, Response } from 'express'
import { isPromise } from '../http/sync-or-async.js'
import type { Configuration } from './configuration.js'

/**
 * Watches how a request ends, starting before it is counted, so that no event is missed. Once it is counted, gives it
 * back if its outcome requires that; only once, and not after its window has ended.
 */
export class Outcome {
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
