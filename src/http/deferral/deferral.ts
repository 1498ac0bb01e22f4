import { type Clock, Deadline } from '../../limiter/core/clock.js'
import { type Decision, verdictOf } from '../../limiter/core/decision.js'
import { type Duration, parseOption } from '../../limiter/core/duration.js'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import { checkInteger, checkOptions, type OptionNames } from '../../limiter/core/options.js'
import { Guarded } from '../../limiter/guarded.js'
import type { LimiterKey } from '../../limiter/key.js'
import type { RateLimiter } from '../../limiter/rate-limiter.js'
import { decisionOf } from '../../limiter/settlement.js'
import { SCHEDULES, type ScheduleStore } from '../../waiting/queue/schedules.js'
import { bodyOf, type Refusal } from '../refusal.js'
import type { SyncOrAsync } from '../sync-or-async.js'
import { Departures, type Reservation } from './departures.js'
import { ProcessSchedules } from './process-schedules.js'

/** The queue for messages of deferred requests: a `DelayQueue`, or an object with the same `push`. */
interface DeferQueue {
  /** `delay` is in ms. Resolves to the id, or to null if the queue does not accept the message. */
  push(payload: unknown, options: { delay: number }): Promise<string | null>
}

/**
 * A queue that keeps the schedules of its deferred messages itself, and accepts the moment at which a message is due.
 */
interface SchedulingQueue {
  readonly [SCHEDULES]: ScheduleStore
  push(payload: unknown, options: { at: number }): Promise<string | null>
}

/** Puts requests over the limit into a queue instead of refusing them. */
export interface DeferOptions<Request, Response> {
  /**
   * A `DelayQueue`, whose consumers do the work. Messages become due at the policy's own rate: with a `DelayQueue` for
   * all processes together, with another queue for each process separately. If it is full, fails or is late, the
   * request is refused.
   */
  queue: DeferQueue
  /** Builds the message for the consumer, like `req => req.body`. */
  message: (req: Request, res: Response) => unknown
  /**
   * The URL at which the client can ask for the outcome, by the id of the message, like `id => '/jobs/' + id`. Default:
   * no Location; the id is in the body, as JSON.
   */
  location?: (id: string, req: Request) => string
  /**
   * How long the queue may take to accept a message; default '1s'. A message that it accepts later is still processed,
   * although its request was refused.
   */
  timeout?: Duration
  /**
   * The most messages of one key that wait until they are due; integer ≥ 1, default 100. Further requests of the key
   * are refused.
   */
  maxPerKey?: number
}

const OPTIONS: OptionNames<DeferOptions<never, never>> = {
  queue: true,
  message: true,
  location: true,
  timeout: true,
  maxPerKey: true,
}

export function checkDeferOptions(defer: DeferOptions<never, never>): void {
  if (typeof defer !== 'object' || defer === null) throw mistake(`defer ${shown(defer)}`)
  checkOptions('rateLimit: defer', defer, OPTIONS, '{ queue, message: req => req.body }')
  const { queue, message, location, timeout, maxPerKey } = defer
  if (typeof queue?.push !== 'function') throw mistake(`defer: queue ${shown(queue)}`)
  if (typeof message !== 'function') throw mistake(`defer: message ${shown(message)}`)
  if (location !== undefined && typeof location !== 'function') throw mistake(`defer: location ${shown(location)}`)
  if (timeout !== undefined) parseOption(timeout, 'rateLimit: defer: timeout')
  if (maxPerKey !== undefined) checkInteger(maxPerKey, 'rateLimit: defer: maxPerKey', 100, 1)
}

function mistake(what: string): PolicyError {
  return new PolicyError(
    `rateLimit: ${what}: expected { queue, message }, and perhaps location, timeout and maxPerKey, like ` +
      '{ queue: new DelayQueue(client, "webhooks"), message: req => req.body }',
  )
}

/** The outcome of a request that was to be deferred. */
interface Deferred {
  /** A denial that tells when the request is done, or would be. */
  readonly decision: Decision
  /** The answer 202; undefined if the request is refused after all. */
  readonly accepted: Refusal | undefined
}

/** Puts requests over the limit into a queue. */
export class Deferral<Request, Response> {
  readonly #options: DeferOptions<Request, Response>
  readonly #deadline: Deadline
  /** Guards the schedules that are asked for an allowed request. */
  readonly #admission: Guarded
  readonly #departures: Departures

  /**
   * `clock` is the clock of the limits; a queue with its own schedules has its own clock. `deadline` is the deadline of
   * a decision.
   */
  constructor(options: DeferOptions<Request, Response>, clock: Clock, deadline: Duration = 50) {
    const { queue, timeout = '1s', maxPerKey = 100 } = options
    this.#options = options
    this.#deadline = new Deadline(parseOption(timeout, 'rateLimit: defer: timeout'))
    this.#admission = new Guarded(parseOption(deadline, 'rateLimit: deadline'))
    const schedules = keepsSchedules(queue) ? queue[SCHEDULES] : new ProcessSchedules(clock)
    this.#departures = new Departures(schedules, maxPerKey)
  }

  /**
   * Whether a denied request may be deferred: not if it can never fit, its key is blocked, or an outage of the store
   * caused the denial.
   */
  accepts({ retryAfterMs, blocked, source }: Decision): boolean {
    return retryAfterMs < Number.POSITIVE_INFINITY && !blocked && source !== 'closed'
  }

  message(req: Request, res: Response): SyncOrAsync<unknown> {
    return this.#options.message(req, res)
  }

  /**
   * For a request that the limiter has allowed and charged: the ms that it must wait (leaky bucket); undefined if
   * messages of its key wait, so that it must be deferred behind them. During an outage of the store or the schedules
   * the limiter's decision stands.
   */
  admit(limiter: RateLimiter, key: LimiterKey, decision: Decision): SyncOrAsync<number | undefined> {
    // Only a request that would ask the schedules may use up the turn of a probe.
    if (decision.degraded || !this.#departures.available || !this.#admission.mayAsk()) return 0
    const admission = this.#departures.admit(limiter, key, decision)
    return admission instanceof Promise ? this.#admission.hold(admission).catch(() => 0) : admission
  }

  /** Queues the message of a request, due when the policy allows it behind all waiting messages. */
  async answer(
    message: unknown,
    limiter: RateLimiter,
    key: LimiterKey,
    decision: Decision,
    req: Request,
  ): Promise<Deferred> {
    let reservation: Reservation | undefined
    const queued = async () => {
      reservation = await this.#departures.reserve(limiter, key, decision)
      return this.#push(message, reservation)
    }
    const id = await this.#deadline.hold(queued()).catch(() => null)
    const denial = denialOf(key, decision, reservation?.waitMs)
    return { decision: denial, accepted: id === null ? undefined : this.#accepted(id, req) }
  }

  async #push(message: unknown, { dueAt, waitMs, release }: Reservation): Promise<string | null> {
    if (dueAt === undefined) return null
    const { queue } = this.#options
    const id = keepsSchedules(queue)
      ? await queue.push(message, { at: dueAt })
      : await queue.push(message, { delay: waitMs })
    // After an error the message may still be in the queue, so its reservation stays.
    if (id === null) await release()
    return id
  }

  #accepted(id: string, req: Request): Refusal {
    const { location } = this.#options
    const fields = { 'Cache-Control': 'no-store' }
    const body = bodyOf({ id })
    return { status: 202, fields: location ? { ...fields, Location: location(id, req) } : fields, body }
  }
}

function keepsSchedules(queue: object): queue is SchedulingQueue {
  return SCHEDULES in queue
}

/** The denial of a request that waits behind others: until its own turn, regardless of the limiter's own time. */
function denialOf(key: LimiterKey, decision: Decision, waitMs: number | undefined): Decision {
  const { allowed, limit, cost, source, degraded } = decision
  if (waitMs === undefined && !allowed) return decision
  const verdicts = decision.verdicts.map(verdict => {
    if (allowed ? verdict.limit !== limit : verdict.allowed) return verdict
    const retryAfterMs = Math.max(1, waitMs ?? verdict.resetAfterMs)
    const resetAfterMs = Math.max(verdict.resetAfterMs, retryAfterMs)
    return verdictOf(verdict.limit, 0, retryAfterMs, resetAfterMs)
  })
  return decisionOf(key, cost, verdicts, source, degraded)
}
