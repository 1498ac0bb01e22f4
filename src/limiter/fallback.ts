import { type Decision, verdictOf } from './core/decision.js'
import type { Limit } from './core/limit.js'
import { getOrMake } from './core/maps.js'
import { OutageWarnings } from './core/warnings.js'
import type { LimiterKey } from './key.js'
import { MemoryStore } from './memory/memory-store.js'
import { offersOf } from './offers.js'
import { type ChangeCharges, decisionOf } from './settlement.js'
import type { Charge, Store } from './store.js'

/**
 * The decision while the store fails: 'local' (default): an in-process limiter with quota × localShare, which counts
 * only what it decides itself; 'open' allows; 'closed' denies, over HTTP with 503.
 */
export type StoreFailure = 'local' | 'open' | 'closed'

/** `retryAfterMs` of a denial while the store fails: the end of an outage is unknown. */
const CLOSED_RETRY_MS = 1000

const LOCAL = new WeakMap<Store, MemoryStore>()

/**
 * The local store that replaces a failed store. All limiters over the failed store share it, so that limiters with the
 * same name and limit share one quota in an outage, too.
 */
function localOf(store: Store): MemoryStore {
  return getOrMake(LOCAL, store, () => new MemoryStore({ clock: store.clock }))
}

/** The failure policy: decides instead of the store, and marks its decisions (`degraded`). */
export class FailurePolicy {
  readonly #shared = new WeakMap<Limit, Limit>()

  /** `store`: the store that it replaces. */
  constructor(
    readonly kind: StoreFailure,
    readonly localShare: number,
    readonly store: Store,
  ) {}

  decide(verb: 'consume' | 'peek', key: LimiterKey, charges: readonly Charge[], cost: number): Decision {
    if (this.kind !== 'local') return this.#decideFlatly(key, charges, cost)
    const local = localOf(this.store)
    const shares = charges.map(charge => ({ ...charge, limit: this.#shareOf(charge.limit) }))
    const verdicts = local[verb](shares, cost)
    if (verb === 'peek') return decisionOf(key, cost, verdicts, 'fallback', true)
    // A store in this process needs no deadline, and does not fail.
    const change: ChangeCharges = async (_, part, act) => act(local, part, Number.POSITIVE_INFINITY)
    const owner = { store: local, change, key, chargesOf: () => shares }
    return decisionOf(key, cost, verdicts, 'fallback', true, { owner, chargedAt: local.decidedAt })
  }

  #decideFlatly(key: LimiterKey, charges: readonly Charge[], cost: number): Decision {
    const allowed = this.kind === 'open'
    const waitMs = allowed ? 0 : CLOSED_RETRY_MS
    const verdicts = charges.map(({ limit }) =>
      verdictOf(limit, allowed ? Math.max(0, limit.quota - cost) : 0, waitMs, waitMs),
    )
    return decisionOf(key, cost, verdicts, allowed ? 'open' : 'closed', true)
  }

  /** units × localShare, rounded down; exact for 1/n, where the product of floats may be just below a whole number. */
  #partOf(units: number): number {
    const part = Math.floor(units * this.localShare)
    return (part + 1) / units <= this.localShare ? part + 1 : part
  }

  /** The part of a limit that one process grants alone: rounded down, but at least 1 if the limit is not 0. */
  #shareOf(limit: Limit): Limit {
    if (this.localShare === 1) return limit
    return getOrMake(this.#shared, limit, () => {
      const part = (units: number) => (units === 0 ? 0 : Math.max(1, this.#partOf(units)))
      return Object.freeze({ ...limit, quota: part(limit.quota), burst: part(limit.burst) })
    })
  }
}

const MEANWHILE: Record<StoreFailure, string> = {
  local: "each process counts alone (onStoreFailure: 'local')",
  open: "every request is allowed (onStoreFailure: 'open')",
  closed: "every request is denied (onStoreFailure: 'closed')",
}

/**
 * The process warnings of an outage of a store. All that asks one client or store shares them. undefined for a store in
 * this process, which has no outages.
 */
export function outageWarnings(store: Store, onStoreFailure: StoreFailure): OutageWarnings | undefined {
  if (store instanceof MemoryStore) return undefined
  const meanwhile = MEANWHILE[onStoreFailure]
  return offersOf(store)?.outageWarnings(meanwhile) ?? new OutageWarnings(store, () => nameOf(store), meanwhile)
}

function nameOf(store: Store): string {
  const name = store.constructor?.name
  return name === undefined || name === 'Object' ? 'the store' : `the store ${name}`
}
