import type { Decision } from './decision.js'
import { PolicyError, shown } from './errors.js'
import type { Limit } from './limit.js'

/**
 * Watches decisions, the store and the shared objects, for metrics and logs. Every method is optional and is called synchronously. An error
 * that one throws becomes a process warning (SPILLWAY_OBSERVER) and changes nothing else. Durations are in ms.
 */
export interface Observer {
  /** Once for each decision of `consume` and `acquire`, also one that did not come from the store (`decision.source`); `limiter` is its name. */
  decided?(decision: Decision, limiter: string): void
  /** The store has answered one question, which held so many decisions. Not called yet. */
  storeAnswered?(event: { durationMs: number; decisions: number }): void
  /** The store failed one decision, or did not answer within the deadline; the failure policy decided. */
  storeFailed?(error: Error): void
  /** The store fails so often that only a probe now and then asks it. */
  breakerOpened?(error: Error): void
  /** A probe succeeded: the store is asked again. */
  breakerClosed?(): void
  /** A process has bought units of a busy key in advance. Not called yet. */
  leaseBought?(event: { limit: Limit; units: number; ttlMs: number }): void
  /** Units that were bought in advance and not spent in time. Not called yet. */
  leaseExpired?(event: { limit: Limit; units: number }): void
  /** Somebody has waited, and how it ended. Not called yet. */
  waited?(event: {
    object: 'limiter' | 'rate' | 'semaphore' | 'concurrency'
    name: string
    waitMs: number
    outcome: 'granted' | 'timeout' | 'aborted'
  }): void
  /** Permits were held for so long; `lost`: their lease ended before they were released. Not called yet. */
  held?(event: { object: 'semaphore' | 'concurrency'; name: string; heldMs: number; lost: boolean }): void
  /** A message was delivered, so long after it was due; `attempt` is 1 for the first delivery. Not called yet. */
  delivered?(event: { queue: string; latenessMs: number; attempt: number }): void
  /** What stands at the moment: told when it changes, at most once a second for each object. Not called yet. */
  level?(event: {
    object: 'limiter' | 'rate' | 'semaphore' | 'concurrency' | 'queue'
    name: string
    inUse?: number
    waiting?: number
    depth?: number
  }): void
  /** A delivery was settled; 'stale': it was somebody else's by then. Not called yet. */
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
  return combined
}

function tell(observer: Observer, method: keyof Observer, args: readonly unknown[]): void {
  try {
    ;(observer[method] as (...args: readonly unknown[]) => void)(...args)
  } catch (error) {
    process.emitWarning(`observer.${method} threw: ${(error as Error)?.message ?? error}`, {
      code: 'SPILLWAY_OBSERVER',
    })
  }
}
