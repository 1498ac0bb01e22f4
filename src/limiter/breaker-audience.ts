import { notify, type Observer } from '../core/observer.js'
import type { CircuitBreaker } from './circuit-breaker.js'

/** Above this number of observers, those that were garbage collected are removed. */
const FEW = 64

/**
 * The observers of a store's breakers: all observers of its limiters, not only that of the limiter with the last failure. Each observer
 * that receives `breakerOpened` also receives `breakerClosed`, so that a count of open breakers returns to 0.
 */
export class BreakerAudience {
  /** Weak, so that a store does not keep the observers of limiters that are no longer used. */
  #members: Array<WeakRef<Observer>> = []
  readonly #known = new WeakSet<Observer>()
  readonly #informed = new WeakMap<CircuitBreaker, readonly Observer[]>()
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
    const informed = this.#members.map(member => member.deref()).filter(observer => observer !== undefined)
    this.#informed.set(breaker, informed)
    for (const observer of informed) notify(observer, 'breakerOpened', error)
  }

  closed(breaker: CircuitBreaker): void {
    const informed = this.#informed.get(breaker) ?? []
    this.#informed.delete(breaker)
    for (const observer of informed) notify(observer, 'breakerClosed')
  }
}
