import type { Decision } from './decision.js'
import { PolicyError, shown } from './errors.js'
import type { Limit } from './limit.js'
import { emitWarning } from './warning.js'

/** What an event is about: a limiter in whose line requests wait, or a shared object. */
export type ObservedObject = 'limiter' | 'rate' | 'semaphore' | 'concurrency' | 'queue'

/** How a wait ended. */
export type WaitOutcome = 'granted' | 'timeout' | 'aborted'

/**
 * Watches decisions, the store and the shared objects, for metrics and logs. Every method is optional and is called synchronously. An error
 * that one throws, or the promise that it returns rejects with, becomes a process warning (SPILLWAY_OBSERVER) and changes nothing else. Durations
 * are in ms, never negative, and may have fractions. An object without observer measures nothing.
 */
export interface Observer {
  /**
   * Once for each decision of `consume`, `consumeUpTo`, `decide` and `acquire`, whoever made it (`decision.source`); not for `peek`. `limiter` is the
   * limiter's name, 'default' without one. An `acquire` that rejects has no decision.
   */
  decided?(decision: Decision, limiter: string): void
  /**
   * The store has answered one question. `decisions`: how many decisions it held, those of `peek` included; 0 for a change (`reset`, `settle`), an ask of a
   * waiting line, or a place of `concurrencyLimit`. Not told of a store that answers at once, such as a `MemoryStore`.
   */
  storeAnswered?(event: { durationMs: number; decisions: number }): void
  /** The store failed one decision or change, or did not answer it within the deadline. */
  storeFailed?(error: Error): void
  /** The store fails so often that only a probe now and then asks it. Told to every observer of the store's limiters with the same deadline. */
  breakerOpened?(error: Error): void
  /** A probe succeeded: the store is asked again. Told to whom the opening was told, once for each. */
  breakerClosed?(): void
  /** A process has bought units of a busy key in advance, under each limit of its policy: see the option `leases` of `RedisStore`. `ttlMs`: for so long it may spend them. */
  leaseBought?(event: { limit: Limit; units: number; ttlMs: number }): void
  /** Units that were bought in advance and not spent in time. */
  leaseExpired?(event: { limit: Limit; units: number }): void
  /**
   * A call that was ready to wait has ended: `acquire` and `tryAcquire`, a request to `concurrencyLimit`, a request that a leaky bucket holds
   * back. 'granted' at once is told too, with a `waitMs` near 0; 'timeout': the turn did not come, or would have come, in time. Calls that fail (`StoreError`,
   * `CostError`) are not told.
   */
  waited?(event: { object: Exclude<ObservedObject, 'queue'>; name: string; waitMs: number; outcome: WaitOutcome }): void
  /** Permits of a lease, or the place of a request, were given back after so long; `lost`: the lease had ended before. */
  held?(event: { object: 'semaphore' | 'concurrency'; name: string; heldMs: number; lost: boolean }): void
  /** A message was handed to a handler, or by `receive`, so long after it was due; `attempt` is 1 for the first delivery. */
  delivered?(event: { queue: string; latenessMs: number; attempt: number }): void
  /**
   * What stands at the moment: told when it changes, at most once a second for each object and name. `inUse` (permits that are held) and `waiting` are those of this
   * process; `depth` counts the messages that the queue holds in Redis, dead letters not included. Who waits for less than 20 ms is not told.
   */
  level?(event: { object: ObservedObject; name: string; inUse?: number; waiting?: number; depth?: number }): void
  /**
   * A delivery was settled, so long after it was handed over; 'dead': it became a dead letter; 'stale': its visibility had ended. A message whose last visibility
   * ends without an answer is told as 'dead' with a duration of 0, by the process that finds it.
   */
  settledDelivery?(event: { queue: string; outcome: 'ack' | 'nack' | 'dead' | 'stale'; durationMs: number }): void
}

const METHODS: Record<keyof Observer, true> = {
  decided: true,
  storeAnswered: true,
  storeFailed: true,
  breakerOpened: true,
  breakerClosed: true,
  leaseBought: true,
  leaseExpired: true,
  waited: true,
  held: true,
  delivered: true,
  level: true,
  settledDelivery: true,
}
const METHOD_NAMES = Object.keys(METHODS) as Array<keyof Observer>

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

/** Calls one method of an observer, if it has it; an error that it throws becomes a process warning. */
export function notify<Method extends keyof Observer>(
  observer: Observer | undefined,
  method: Method,
  ...args: Parameters<NonNullable<Observer[Method]>>
): void {
  if (observer?.[method] !== undefined) tell(observer, method, args)
}

/** As `notify` for `decided`, which is told of every decision: a list of arguments would cost as much again. */
export function tellDecided(observer: Observer | undefined, decision: Decision, limiter: string): void {
  if (observer?.decided === undefined) return
  try {
    const told: unknown = observer.decided(decision, limiter)
    if (told !== undefined) warnIfRejected(told, 'decided')
  } catch (error) {
    warn('decided', error)
  }
}

/** One observer that tells several, in this order; an error that one throws keeps nothing from the others. Throws `PolicyError`. */
export function observers(...all: readonly Observer[]): Observer {
  for (const one of all) parseObserver(one ?? (null as unknown as Observer), 'observers')
  const combined: Record<string, (...args: unknown[]) => void> = {}
  for (const method of METHOD_NAMES) {
    const told = all.filter(one => one[method] !== undefined)
    if (told.length === 0) continue
    combined[method] = (...args) => {
      for (const one of told) tell(one, method, args)
    }
  }
  const deciding = all.filter(one => one.decided !== undefined)
  if (deciding.length === 0) return combined
  const decided = (decision: Decision, limiter: string) => {
    for (const one of deciding) tellDecided(one, decision, limiter)
  }
  return { ...combined, decided }
}

function tell(observer: Observer, method: keyof Observer, args: readonly unknown[]): void {
  try {
    const told = (observer[method] as (...args: readonly unknown[]) => unknown)(...args)
    if (told !== undefined) warnIfRejected(told, method)
  } catch (error) {
    warn(method, error)
  }
}

/** A method may be an async function, though nobody waits for it. */
function warnIfRejected(told: unknown, method: keyof Observer): void {
  if (told instanceof Promise) told.catch(error => warn(method, error))
}

function warn(method: keyof Observer, error: unknown): void {
  emitWarning('SPILLWAY_OBSERVER', `observer.${method} threw: ${(error as Error)?.message ?? error}`)
}
