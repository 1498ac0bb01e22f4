import type { Observer } from '../../../src/limiter/core/observer.js'

type Event<Method extends keyof Observer> = Parameters<NonNullable<Observer[Method]>>[0]

/** Keeps every event, in order, by the method that was called. */
export class Recorder {
  readonly events: Array<readonly [method: keyof Observer, ...args: unknown[]]> = []
  readonly observer: Observer

  constructor() {
    const observer: Record<string, (...args: unknown[]) => void> = {}
    for (const method of METHODS) observer[method] = (...args) => void this.events.push([method, ...args])
    this.observer = observer
  }

  /** The first argument of each call of a method. */
  of<Method extends keyof Observer>(method: Method): Array<Event<Method>> {
    return this.events.filter(([name]) => name === method).map(([, event]) => event as Event<Method>)
  }

  count(method: keyof Observer): number {
    return this.of(method).length
  }
}

export const METHODS: ReadonlyArray<keyof Observer> = [
  'decided',
  'storeAnswered',
  'storeFailed',
  'breakerOpened',
  'breakerClosed',
  'leaseBought',
  'leaseExpired',
  'waited',
  'held',
  'holding',
  'delivered',
  'level',
  'settledDelivery',
]
