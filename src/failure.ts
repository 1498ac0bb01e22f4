import { systemClock } from './clock.js'
import { type Decision, decide, type Verdict } from './decision.js'
import type { Limit } from './limit.js'
import type { Charge, Store } from './store.js'
import { MemoryStore } from './stores/memory.js'

/**
 * What answers when the store does not: 'local' (default) an in-process limiter with quota × localShare, kept warm by nothing
 * but its own traffic; 'open' allows; 'closed' denies, over HTTP with 503.
 */
export type StoreFailure = 'local' | 'open' | 'closed'

/** When to come back to a store that failed: nobody knows, so not at once and not for long. */
const CLOSED_RETRY_MS = 1000

/** The failure policy: decides in the store's place, and says so (`degraded`). */
export class FailurePolicy {
  readonly #shared = new WeakMap<Limit, Limit>()
  #local: MemoryStore | undefined

  constructor(
    readonly kind: StoreFailure,
    readonly localShare: number,
    readonly store: Store,
  ) {}

  consume(key: string, charges: readonly Charge[], cost: number): Decision {
    if (this.kind === 'local') return this.#decideLocally('consume', key, charges, cost)
    return this.#decideFlatly(key, charges, cost)
  }

  peek(key: string, charges: readonly Charge[], cost: number): Decision {
    if (this.kind === 'local') return this.#decideLocally('peek', key, charges, cost)
    return this.#decideFlatly(key, charges, cost)
  }

  close(): void {
    this.#local?.close()
  }

  #decideLocally(verb: 'consume' | 'peek', key: string, charges: readonly Charge[], cost: number): Decision {
    this.#local ??= new MemoryStore({ clock: this.store.clock ?? systemClock })
    const local = charges.map(charge => ({ ...charge, limit: this.#shareOf(charge.limit) }))
    return decide(key, cost, this.#local[verb](local, cost), 'fallback', true)
  }

  #decideFlatly(key: string, charges: readonly Charge[], cost: number): Decision {
    const allowed = this.kind === 'open'
    const verdicts = charges.map(
      ({ limit }): Verdict => ({
        limit,
        allowed,
        remaining: allowed ? Math.max(0, limit.quota - cost) : 0,
        retryAfterMs: allowed ? 0 : CLOSED_RETRY_MS,
        resetAfterMs: allowed ? 0 : CLOSED_RETRY_MS,
        delayMs: 0,
      }),
    )
    return decide(key, cost, verdicts, allowed ? 'open' : 'closed', true)
  }

  /** The part of a limit that one process grants alone: rounded down, at least 1 where the whole is. */
  #shareOf(limit: Limit): Limit {
    if (this.localShare === 1) return limit
    let shared = this.#shared.get(limit)
    if (shared === undefined) {
      const part = (units: number) => (units === 0 ? 0 : Math.max(1, Math.floor(units * this.localShare)))
      shared = Object.freeze({ ...limit, quota: part(limit.quota), burst: part(limit.burst) })
      this.#shared.set(limit, shared)
    }
    return shared
  }
}
