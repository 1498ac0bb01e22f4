import type { Duration } from '../../limiter/core/duration.js'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import { checkFlag, checkFunction, checkInteger, checkOptions, type OptionNames } from '../../limiter/core/options.js'
import { type Patience, patienceOf, timeoutOf } from '../../limiter/core/wait.js'
import { parseVisibility } from './options.js'

/** Options of `DelayQueue.receive`. */
export interface ReceiveOptions {
  /** Most messages to take: integer from 1 to 1000, default 1. */
  count?: number
  /** How long to wait for the first message. Default 0: does not wait; `Infinity`: until there is one. */
  wait?: Duration | 0
  /**
   * How long the deliveries belong to this caller. Default: the queue's `visibility`. More than 0, at most 400 years.
   */
  visibility?: Duration
  /**
   * Default: none. Aborting it, like `AbortSignal.timeout(60_000)`, rejects with its reason; messages taken by then are
   * put back, not counted as an attempt.
   */
  signal?: AbortSignal
}

interface ReceiveSettings {
  readonly count: number
  readonly patience: Patience
  readonly visibilityMs: number
}

const RECEIVE_OPTIONS: OptionNames<ReceiveOptions> = { count: true, wait: true, visibility: true, signal: true }

/** Checks the options: `PolicyError`, which begins with `user`. `visibilityMs`: the queue's. */
export function parseReceiveOptions(options: ReceiveOptions, visibilityMs: number, user: string): ReceiveSettings {
  checkOptions(user, options, RECEIVE_OPTIONS, "{ count: 10, wait: '5s' }")
  const { count = 1, wait = 0, visibility, signal } = options
  checkInteger(count, `${user}: count`, 10, 1, 1000)
  return {
    count,
    patience: patienceOf({ timeout: timeoutOf(wait, `${user}: wait`), signal }, user, 0),
    visibilityMs: visibility === undefined ? visibilityMs : parseVisibility(visibility, `${user}: visibility`),
  }
}

/** Options of `DelayQueue.consume`. */
export interface ConsumeOptions {
  /**
   * Most handlers that run at once, and most messages that the consumer holds: integer from 1, default 1. Handlers that
   * take less than a few ms are faster with more: one call of Redis then brings several messages.
   */
  concurrency?: number
  /**
   * How long a delivery belongs to this consumer before it must be extended. Default: the queue's. More than 0, at most
   * 400 years.
   */
  visibility?: Duration
  /**
   * Default true: the visibility is extended while the handler runs. False: a message whose handler takes longer is
   * delivered again meanwhile.
   */
  autoExtend?: boolean
  /** Aborting it closes the consumer, with the grace of 30 s. Default: none. */
  signal?: AbortSignal
  /**
   * Default: none. A `SharedRateLimiter`: one permit is acquired before each delivery is handled, so that all processes
   * together keep its rate. The consumer holds at most one message that has no permit yet; only when its handler begins
   * does that count as an attempt. While the limiter fails, it is asked once a second at most.
   */
  limiter?: Limiter
}

/** The limiter that each delivery waits for: a `SharedRateLimiter`, or an object with the same `acquire`. */
export interface Limiter {
  /** Resolves when the delivery has `permits` permits (default 1); rejects when the signal is aborted. */
  acquire(permits?: number, options?: { signal?: AbortSignal }): Promise<unknown>
}

export interface ConsumeSettings {
  readonly concurrency: number
  readonly visibilityMs: number
  readonly autoExtend: boolean
  readonly signal: AbortSignal | undefined
  readonly limiter: Limiter | undefined
}

const CONSUME_OPTIONS: OptionNames<ConsumeOptions> = {
  concurrency: true,
  visibility: true,
  autoExtend: true,
  signal: true,
  limiter: true,
}

/** Checks handler and options: `PolicyError`, which begins with `user`. `visibilityMs`: the queue's. */
export function parseConsumeOptions(
  handler: unknown,
  options: ConsumeOptions,
  visibilityMs: number,
  user: string,
): ConsumeSettings {
  checkOptions(user, options, CONSUME_OPTIONS, '{ concurrency: 10 }')
  const { concurrency = 1, visibility, autoExtend = true, signal, limiter } = options
  checkFunction(handler, `${user}: handler`, 'async ({ payload }) => {}')
  checkInteger(concurrency, `${user}: concurrency`, 10, 1)
  checkFlag(autoExtend, `${user}: autoExtend`)
  if (limiter !== undefined) checkLimiter(limiter, user)
  patienceOf({ signal }, user, 0)
  return {
    concurrency,
    visibilityMs: visibility === undefined ? visibilityMs : parseVisibility(visibility, `${user}: visibility`),
    autoExtend,
    signal,
    limiter,
  }
}

/**
 * A `RateLimiter` acquires for a key, and a lease of a `Semaphore` must be released: both have an `acquire` of another
 * meaning.
 */
function checkLimiter(limiter: Limiter, user: string): void {
  const expected = 'expected a SharedRateLimiter, like new SharedRateLimiter(client, "webhooks")'
  const { acquire, consume, use } = (limiter ?? {}) as { acquire?: unknown; consume?: unknown; use?: unknown }
  if (typeof consume === 'function') throw new PolicyError(`${user}: limiter is a RateLimiter: ${expected}`)
  if (typeof use === 'function') throw new PolicyError(`${user}: limiter is a Semaphore: ${expected}`)
  if (typeof acquire !== 'function') throw new PolicyError(`${user}: limiter ${shown(limiter)}: ${expected}`)
}
