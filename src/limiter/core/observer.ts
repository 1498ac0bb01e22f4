import { DECIDED, publisher } from './channels.js'
import type { Decision } from './decision.js'
import { PolicyError, shown } from './errors.js'
import type { Limit } from './limit.js'
import { emitWarning } from './warnings.js'

export const OBSERVED_OBJECTS = ['limiter', 'rate', 'semaphore', 'concurrency', 'bottleneck', 'queue'] as const
/** The subject of an event: a limiter with a waiting line, or a shared object. */
export type ObservedObject = (typeof OBSERVED_OBJECTS)[number]
/** The subject of an event about something that is held. */
export type HeldObject = Exclude<ObservedObject, 'limiter' | 'rate' | 'queue'>

/** How a wait ended. */
export type WaitOutcome = 'granted' | 'timeout' | 'aborted'

/** Permits that this process holds, or the place of a request. */
export interface Hold {
  /** Integer ≥ 1. */
  readonly permits: number
  /** The id of the lease; absent for a place that only this process counts. */
  readonly lease?: string
  /** When it was granted, ms since the epoch: by the server's clock for a lease, else by the process's own. */
  readonly since: number
}

/**
 * Receives events of decisions, the store and the shared objects, for metrics and logs. Every method is optional and is
 * called synchronously. An error that a method throws, or its promise's rejection, becomes a process warning
 * (SPILLWAY_OBSERVER) and has no other effect. Durations are in ms, never negative, and may be fractional. An object
 * without an observer measures nothing, unless somebody subscribes to a channel of `node:diagnostics_channel` that tells
 * the same: `spillway:decided`, `spillway:store`, `spillway:waited`, `spillway:held` or `spillway:delivered`.
 */
export interface Observer {
  /**
   * Called once for each decision of `consume`, `consumeUpTo`, `decide` and `acquire`, from any source
   * (`decision.source`); not for `peek`. `limiter` is the limiter's name, or 'default'. An `acquire` that rejects has
   * no decision.
   */
  decided?(decision: Decision, limiter: string): void
  /**
   * The store answered one call. `decisions`: the number of decisions in the call, `peek` included; 0 for a change
   * (`reset`, `settle`), a message to a waiting line, or a place of `concurrencyLimit`. Not called for stores that
   * answer synchronously, such as `MemoryStore`.
   */
  storeAnswered?(event: { durationMs: number; decisions: number }): void
  /** The store failed one decision or change, or did not answer it within the deadline. */
  storeFailed?(error: Error): void
  /**
   * The store fails so often that it is only probed from time to time. Called for every observer of the store's
   * limiters with the same deadline.
   */
  breakerOpened?(error: Error): void
  /** A probe succeeded: the store is in use again. Called once for each observer that received `breakerOpened`. */
  breakerClosed?(): void
  /**
   * A process bought units of a busy key in advance, under each limit of its policy: see the option `leases` of
   * `RedisStore`. It may spend them for `ttlMs`.
   */
  leaseBought?(event: { limit: Limit; units: number; ttlMs: number }): void
  /** Units that were bought in advance expired unspent. */
  leaseExpired?(event: { limit: Limit; units: number }): void
  /**
   * A call that was willing to wait has ended: `acquire` and `tryAcquire`, a request to `concurrencyLimit`, a request
   * delayed by a leaky bucket, a job of Bottleneck ('aborted': it was dropped). Immediate grants are reported too, with
   * a `waitMs` near 0. 'timeout': the turn did not come in time, or could not have. Calls that fail (`StoreError`,
   * `CostError`) are not reported.
   */
  waited?(event: { object: Exclude<ObservedObject, 'queue'>; name: string; waitMs: number; outcome: WaitOutcome }): void
  /**
   * Permits of a lease, the place of a request, or the weight of a job, were given back after `heldMs`; `lost`: the
   * lease had ended before.
   */
  held?(event: { object: HeldObject; name: string; heldMs: number; lost: boolean }): void
  /**
   * Called once for each object and name, when this process first holds permits of it. `holds` is then kept up to date:
   * what the process holds, the longest held first. Without this method nothing is kept of single holds.
   */
  holding?(event: { object: HeldObject; name: string; holds: ReadonlySet<Hold> }): void
  /**
   * A message was given to a handler, or returned by `receive`, `latenessMs` after it was due; `attempt` is 1 for the
   * first delivery.
   */
  delivered?(event: { queue: string; latenessMs: number; attempt: number }): void
  /**
   * Current levels: reported when they change, at most once a second for each object and name. `inUse` (permits held)
   * and `waiting` count this process only; `depth` counts the messages of the queue in Redis, without dead letters, and
   * `overdueMs` tells for how long the oldest message has been due that no process has taken yet (0: there is none). Of
   * a partner's budget (`politeFetch`), `used` are the units that count now, of `rate` in `intervalMs`, and `debt` how
   * many of them are above its rate: over Redis those of all processes. `reservoir` is what was left when a Bottleneck
   * last decided. Waits shorter than 20 ms are not reported.
   */
  level?(event: {
    object: ObservedObject
    name: string
    inUse?: number
    waiting?: number
    depth?: number
    overdueMs?: number
    used?: number
    debt?: number
    reservoir?: number
    rate?: number
    intervalMs?: number
  }): void
  /**
   * A delivery was settled `durationMs` after it was handed over; 'dead': it became a dead letter; 'stale': its
   * visibility had ended. When a message's last visibility ends without an answer, the process that finds it reports
   * 'dead' with a duration of 0.
   */
  settledDelivery?(event: { queue: string; outcome: 'ack' | 'nack' | 'dead' | 'stale'; durationMs: number }): void
  /**
   * The consumers of a queue cannot work, because its Redis or their limiter's does not answer or refuses, or the
   * limiter's rate was never set: called when that begins, then once a minute while it lasts, for each queue object.
   */
  consumerFailed?(event: { queue: string; error: Error }): void
}

/** The channel of each event, after `spillway:`. */
export const CHANNEL_OF: Readonly<Record<keyof Observer, string>> = {
  decided: 'decided',
  storeAnswered: 'store',
  storeFailed: 'store',
  breakerOpened: 'store',
  breakerClosed: 'store',
  leaseBought: 'store',
  leaseExpired: 'store',
  consumerFailed: 'store',
  waited: 'waited',
  level: 'waited',
  held: 'held',
  holding: 'held',
  delivered: 'delivered',
  settledDelivery: 'delivered',
}

/** The observer that publishes to `node:diagnostics_channel`: one for the whole process. */
export const CHANNELS: Observer = /* @__PURE__ */ publisher(CHANNEL_OF)

const METHOD_NAMES = Object.keys(CHANNEL_OF) as Array<keyof Observer>

/** Checks the option `observer`; `user` names the class that was given it. Throws `PolicyError`. */
export function parseObserver(observer: Observer | undefined, user: string): Observer | undefined {
  if (observer === undefined) return undefined
  if (typeof observer !== 'object' || observer === null) {
    throw new PolicyError(
      `${user}: observer ${shown(observer)}: expected an object, like { decided: decision => count(decision) }`,
    )
  }
  for (const method of METHOD_NAMES) {
    const given = observer[method]
    if (given === undefined || typeof given === 'function') continue
    throw new PolicyError(`${user}: observer.${method} ${shown(given)}: expected a function`)
  }
  return observer
}

/** Reports an event to an object's observer, and to the channel of the event. */
export function notify<Method extends keyof Observer>(
  observer: Observer | undefined,
  method: Method,
  ...args: Parameters<NonNullable<Observer[Method]>>
): void {
  if (observer !== undefined) tell(observer, method, ...args)
  tell(CHANNELS, method, ...args)
}

/**
 * Calls one method of one observer, if it has it; an error that it throws becomes a process warning. For events that
 * several objects share: there `CHANNELS` is one observer among the others, and is told once.
 */
export function tell<Method extends keyof Observer>(
  observer: Observer,
  method: Method,
  ...args: Parameters<NonNullable<Observer[Method]>>
): void {
  if (observer[method] !== undefined) callMethod(observer, method, args)
}

/** True if somebody hears of an event: else nothing needs to be measured. */
export function isHeard(observer: Observer | undefined, method: keyof Observer): boolean {
  return observer?.[method] !== undefined || CHANNELS[method] !== undefined
}

/** As `notify` for `decided`: called for every decision, where a rest parameter would double the cost. */
export function notifyDecided(observer: Observer | undefined, decision: Decision, limiter: string): void {
  if (observer !== undefined) tellDecided(observer, decision, limiter)
  if (DECIDED.hasSubscribers) DECIDED.publish({ event: 'decided', decision, limiter })
}

function tellDecided(observer: Observer, decision: Decision, limiter: string): void {
  if (observer.decided === undefined) return
  try {
    const result: unknown = observer.decided(decision, limiter)
    if (result !== undefined) warnIfRejected(result, 'decided')
  } catch (error) {
    warn('decided', error)
  }
}

/** One observer that calls several, in this order; an error in one does not affect the others. Throws `PolicyError`. */
export function observers(...all: readonly Observer[]): Observer {
  for (const one of all) parseObserver(one ?? (null as unknown as Observer), 'observers')
  const combined: Record<string, (...args: unknown[]) => void> = {}
  for (const method of METHOD_NAMES) {
    const interested = all.filter(one => one[method] !== undefined)
    if (interested.length === 0) continue
    combined[method] = (...args) => {
      for (const one of interested) callMethod(one, method, args)
    }
  }
  const deciding = all.filter(one => one.decided !== undefined)
  if (deciding.length === 0) return combined
  const decided = (decision: Decision, limiter: string) => {
    for (const one of deciding) tellDecided(one, decision, limiter)
  }
  return { ...combined, decided }
}

function callMethod(observer: Observer, method: keyof Observer, args: readonly unknown[]): void {
  try {
    const result = (observer[method] as (...args: readonly unknown[]) => unknown)(...args)
    if (result !== undefined) warnIfRejected(result, method)
  } catch (error) {
    warn(method, error)
  }
}

/** Observers may be async functions, though their promises are not awaited. */
function warnIfRejected(result: unknown, method: keyof Observer): void {
  if (result instanceof Promise) result.catch(error => warn(method, error))
}

function warn(method: keyof Observer, error: unknown): void {
  emitWarning('SPILLWAY_OBSERVER', `observer.${method} threw: ${(error as Error)?.message ?? error}`)
}
