import { Deadline } from '../../limiter/core/clock.js'
import type { Decision } from '../../limiter/core/decision.js'
import { type Duration, parseOption } from '../../limiter/core/duration.js'
import { PolicyError, StoreError, shown } from '../../limiter/core/errors.js'
import { notify, type Observer } from '../../limiter/core/observer.js'
import { checkOptions, type ForeignNames, type OptionNames } from '../../limiter/core/options.js'
import { OutageWarnings } from '../../limiter/core/warnings.js'
import { callOption } from '../call-option.js'
import { bodyOf, type Refusal } from '../refusal.js'
import type { SyncOrAsync } from '../sync-or-async.js'

/** The queue for messages of deferred requests: a `DelayQueue`, or an object with the same `push`. */
interface DeferQueue {
  /** `delay` is in ms. Resolves to the id, or to null if the queue does not accept the message. */
  push(payload: unknown, options: { delay: number }): Promise<string | null>
}

/** Puts requests over the limit into a queue instead of refusing them. */
export interface DeferOptions<Args extends readonly unknown[]> {
  /**
   * A `DelayQueue`, whose consumers do the work. A message is due after the `retryAfterMs` of its request, and the
   * consumers keep the rate. If the queue is full, the request is refused. It is refused, too, if `push` is late or
   * rejects with `StoreError`: the observer of the limiter is told (`storeFailed`), or without one a process warning
   * (SPILLWAY_QUEUE) is emitted. Any other error goes to the framework.
   */
  queue: DeferQueue
  /** Builds the message for the consumer, like `req => req.body`. */
  message: (...request: Args) => unknown
  /**
   * The URL at which the client can ask for the outcome, by the id of the message, like `id => '/jobs/' + id`. Default:
   * no Location; the id is in the body, as JSON.
   */
  location?: (id: string, request: Args[0]) => string
  /**
   * How long the queue may take to accept a message; default '1s'. A message that it accepts later is still processed,
   * although its request was refused.
   */
  timeout?: Duration
}

const OPTIONS: OptionNames<DeferOptions<never>> = { queue: true, message: true, location: true, timeout: true }
const EXAMPLE = '{ queue: new DelayQueue(client, "webhooks"), message: req => req.body }'
const FORMER: ForeignNames = [
  ['queue', 'bound the queue, like new DelayQueue(client, "webhooks", { maxSize: 10_000 })', 'maxPerKey'],
]

/** Puts requests over the limit into a queue. */
export class Deferral<Args extends readonly unknown[]> {
  readonly #options: DeferOptions<Args>
  readonly #deadline: Deadline
  readonly #warnings: OutageWarnings

  /** Checks the options: `PolicyError`. */
  constructor(options: DeferOptions<Args>) {
    if (typeof options !== 'object' || options === null) throw mistake(`defer ${shown(options)}`)
    checkOptions('rateLimit: defer', options, OPTIONS, EXAMPLE, FORMER)
    const { queue, message, location, timeout = '1s' } = options
    if (typeof queue?.push !== 'function') throw mistake(`defer: queue ${shown(queue)}`)
    if (typeof message !== 'function') throw mistake(`defer: message ${shown(message)}`)
    if (location !== undefined && typeof location !== 'function') throw mistake(`defer: location ${shown(location)}`)
    this.#options = options
    this.#deadline = new Deadline(parseOption(timeout, 'rateLimit: defer: timeout'))
    this.#warnings = new OutageWarnings(
      queue,
      () => 'rateLimit: defer: the queue',
      'requests over the limit are refused',
      undefined,
      'SPILLWAY_QUEUE',
    )
  }

  /**
   * Whether a denied request may be deferred: not if it can never fit, its key is blocked, or an outage of the store
   * caused the denial.
   */
  accepts({ retryAfterMs, blocked, source }: Decision): boolean {
    return retryAfterMs < Number.POSITIVE_INFINITY && !blocked && source !== 'closed'
  }

  message(args: Args): SyncOrAsync<unknown> {
    return callOption(this.#options.message, args)
  }

  /**
   * Pushes the message of a denied request: resolves to the answer 202, or to undefined if the request is refused after
   * all. Rejects with what `push` rejects with, unless that is an outage, of which `observer` is told.
   */
  async push(
    message: unknown,
    { retryAfterMs }: Decision,
    observer: Observer | undefined,
    request: Args[0],
  ): Promise<Refusal | undefined> {
    const { queue, location } = this.#options
    const pushed = async () => queue.push(message, { delay: retryAfterMs })
    const id = await this.#deadline.hold(pushed()).catch(error => this.#failed(error, observer))
    if (id === undefined) return undefined
    this.#warnings.answered()
    if (id === null) return undefined
    const fields = { 'Cache-Control': 'no-store' }
    return {
      status: 202,
      fields: location ? { ...fields, Location: location(id, request) } : fields,
      body: bodyOf({ id }),
    }
  }

  #failed(error: unknown, observer: Observer | undefined): undefined {
    if (!(error instanceof StoreError)) throw error
    if (observer === undefined) this.#warnings.failed(error)
    notify(observer, 'storeFailed', error)
  }
}

function mistake(what: string): PolicyError {
  return new PolicyError(
    `rateLimit: ${what}: expected { queue, message }, and perhaps location and timeout, like ${EXAMPLE}`,
  )
}
