import { goingOn, systemClock } from './core/clock.js'
import { type Verdict, verdictOf } from './core/decision.js'
import { type Limit, maxCostOf } from './core/limit.js'
import { getOrMake } from './core/maps.js'
import { OutageWarnings } from './core/warnings.js'
import { MemoryCounts } from './memory/memory-counts.js'
import type { BoundPolicy, CountedLimit, Counts, Keys, Origin, Reply, Verb } from './port.js'

/**
 * The decision while the store fails: 'local' (default): an in-process limiter with quota × localShare, which counts
 * only what it decides itself; 'open' allows; 'closed' denies, over HTTP with 503.
 */
export type StoreFailure = 'local' | 'open' | 'closed'

/** `retryAfterMs` of a denial while the store fails: the end of an outage is unknown. */
const CLOSED_RETRY_MS = 1000
/** As of a `MemoryStore` by default. */
const MAX_LOCAL_KEYS = 1_000_000

const LOCAL = new WeakMap<Counts, MemoryCounts>()

/**
 * The failure policy for some limits: decides in place of the store, synchronously. Under 'local' all limiters over the
 * failed store share its counts, so that limiters that share a count share one quota in an outage, too.
 */
export function failingPolicy(
  kind: StoreFailure,
  localShare: number,
  counts: Counts,
  counted: readonly CountedLimit[],
): BoundPolicy {
  if (kind !== 'local') return new FlatPolicy(kind, counted)
  return new LocalPolicy(
    counts,
    counted.map(one => ({ ...one, limit: shareOf(one.limit, localShare) })),
    counted.map(({ limit }) => maxCostOf(limit)),
  )
}

const FALLBACK: Origin = { source: 'fallback', degraded: true }

class LocalPolicy implements BoundPolicy {
  readonly limits: readonly Limit[]
  /** Most limiters never need it. */
  #local: BoundPolicy | undefined

  constructor(
    /** Of the store that may fail. */
    readonly counts: Counts,
    readonly counted: readonly CountedLimit[],
    /** What fits under each limit when the store answers. */
    readonly maxCosts: readonly number[],
  ) {
    this.limits = counted.map(({ limit }) => limit)
  }

  decide(verb: Verb, keys: Keys, cost: number, reply: Reply): void {
    this.#policy.decide(verb, keys, cost, {
      resolve: (verdicts, answeredAt, chargedAt) =>
        reply.resolve(this.#afterOutage(verdicts, cost), answeredAt, chargedAt, FALLBACK),
      reject: error => reply.reject(error),
    })
  }

  /** What never fits into the share of this process may fit as soon as the store answers. */
  #afterOutage(verdicts: readonly Verdict[], cost: number): readonly Verdict[] {
    return verdicts.map((verdict, i) =>
      verdict.retryAfterMs === Number.POSITIVE_INFINITY && cost <= this.maxCosts[i]
        ? { ...verdict, retryAfterMs: CLOSED_RETRY_MS }
        : verdict,
    )
  }

  /** A store in this process needs no deadline, and does not fail. */
  change(...change: Parameters<BoundPolicy['change']>): Promise<void> | void {
    return this.#policy.change(...change)
  }

  get #policy(): BoundPolicy {
    const { counts, counted } = this
    this.#local ??= getOrMake(LOCAL, counts, () => localCounts(counts)).bind(counted)
    return this.#local
  }
}

/** The clock may be what has failed. */
function localCounts({ clock }: Counts): MemoryCounts {
  return new MemoryCounts(clock === undefined ? systemClock : goingOn(clock), MAX_LOCAL_KEYS)
}

/** Allows or denies whatever it is asked. */
class FlatPolicy implements BoundPolicy {
  readonly limits: readonly Limit[]
  readonly #origin: Origin

  constructor(kind: 'open' | 'closed', counted: readonly CountedLimit[]) {
    this.limits = counted.map(({ limit }) => limit)
    this.#origin = { source: kind, degraded: true }
  }

  decide(_verb: Verb, _keys: Keys, cost: number, reply: Reply): void {
    const allowed = this.#origin.source === 'open'
    const waitMs = allowed ? 0 : CLOSED_RETRY_MS
    const verdicts = this.limits.map(limit =>
      verdictOf(limit, allowed ? Math.max(0, limit.quota - cost) : 0, waitMs, waitMs),
    )
    reply.resolve(verdicts, performance.now(), undefined, this.#origin)
  }

  change(): void {}
}

/** units × share, rounded down; exact for 1/n, where the product of floats may be just below a whole number. */
function partOf(units: number, share: number): number {
  const part = Math.floor(units * share)
  return (part + 1) / units <= share ? part + 1 : part
}

/** The part of a limit that one process grants alone: rounded down, but at least 1 if the limit is not 0. */
function shareOf(limit: Limit, share: number): Limit {
  if (share === 1) return limit
  const part = (units: number) => (units === 0 ? 0 : Math.max(1, partOf(units, share)))
  return Object.freeze({ ...limit, quota: part(limit.quota), burst: part(limit.burst) })
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
export function outageWarnings(
  store: object,
  counts: Counts,
  onStoreFailure: StoreFailure,
): OutageWarnings | undefined {
  if (counts.isLocal) return undefined
  const meanwhile = MEANWHILE[onStoreFailure]
  return counts.warnings?.(meanwhile) ?? new OutageWarnings(store, () => nameOf(store), meanwhile)
}

function nameOf(store: object): string {
  const name = store.constructor?.name
  return name === undefined || name === 'Object' ? 'the store' : `the store ${name}`
}
