import { notify, type Observer } from '../core/observer.js'
import type { CircuitBreaker } from './circuit-breaker.js'

/** Above this number of observers, those that were garbage collected are removed. */
const FEW = 64

/**
 * The observers of a store's breakers: all observers of its limiters, not only that of the limiter with the last failure. Each observer
 * that was told of an opening is told of the closing, so that a count of open breakers returns to 0.
 */
export class BreakerAudience {
  /** Weak, so that a store does not keep the observers of limiters that are gone. */
  #members: Array<WeakRef<Observer>> = []
  readonly #known = new WeakSet<Observer>()
  readonly #told = new WeakMap<CircuitBreaker, readonly Observer[]>()
  #pruneAt = FEW

  join(observer: Observer): void {
    if (this.#known.has(observer)) return
    this.#known.add(observer)
    this.#members.push(new WeakRef(observer))
    if (this.#members.length < this.#pruneAt) return
    this.#members = this.#members.filter(member => member.deref() !== undefined)
    this.#pruneAt = Math.max(FEW, 2 * this.#members.length)
  }

  opened(breaker: CircuitBreaker, error: Error): void {
    const told = this.#members.map(member => member.deref()).filter(observer => observer !== undefined)
    this.#told.set(breaker, told)
    for (const observer of told) notify(observer, 'breakerOpened', error)
  }

  closed(breaker: CircuitBreaker): void {
    const told = this.#told.get(breaker) ?? []
    this.#told.delete(breaker)
    for (const observer of told) notify(observer, 'breakerClosed')
  }
}
