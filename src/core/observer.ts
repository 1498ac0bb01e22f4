import type { Decision } from './decision.js'

/**
 * What may be watched, for metrics and logs. Every method is optional and called synchronously; what one throws is reported
 * as a process warning and changes no decision.
 */
export interface Observer {
  /** A decision was given by `consume`, whoever gave it (`decision.source`). */
  decided?(decision: Decision): void
  /** The store failed one decision, or did not answer within the deadline; the failure policy decided. */
  storeFailed?(error: Error): void
  /** The store fails so often that it is not asked any more, but for a probe now and then. */
  breakerOpened?(error: Error): void
  /** A probe succeeded: the store is asked again. */
  breakerClosed?(): void
}

export const OBSERVER_METHODS = ['decided', 'storeFailed', 'breakerOpened', 'breakerClosed'] as const

/** Tells the observer; its faults are its own. */
export function notify<Method extends keyof Observer>(
  observer: Observer | undefined,
  method: Method,
  ...args: Parameters<NonNullable<Observer[Method]>>
): void {
  if (observer?.[method] === undefined) return
  try {
    ;(observer[method] as (...args: unknown[]) => void)(...args)
  } catch (error) {
    process.emitWarning(`observer.${method} threw: ${(error as Error)?.message ?? error}`, {
      code: 'SPILLWAY_OBSERVER',
    })
  }
}
