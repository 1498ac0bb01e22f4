import type { BlockRule, Denials, Strikes } from './block-rule.js'
import { type Clock, monotonicClock } from './core/clock.js'
import type { Verdict } from './core/decision.js'
import { StoreError, shown } from './core/errors.js'
import type { Limit } from './core/limit.js'
import { getOrMake } from './core/maps.js'
import { type CallbackHitStore, countsHits, type HitStore, HitStoreAdapter } from './hit-store.js'
import { MemoryCounts } from './memory/memory-counts.js'
import {
  type BoundPolicy,
  type Change,
  type CountedLimit,
  type Counts,
  chargesFor,
  type Keys,
  knownCounts,
  type Origin,
  type Reply,
  type Verb,
} from './port.js'
import type { Charge, Store } from './store.js'

// The edge to stores that users have written: here, and nowhere else, they become what the limiter works with.

const ADAPTED = new WeakMap<object, ForeignCounts>()

/** The counts of any store; of one store always the same. */
export function countsOf(store: Store | HitStore | CallbackHitStore): Counts {
  const adapt = () => (countsHits(store) ? new HitCounts(new HitStoreAdapter(store)) : new ForeignCounts(store))
  return knownCounts(store) ?? getOrMake(ADAPTED, store, adapt)
}

type Answer<T> = Promise<T> | T

/** The counts of a user's store: each of its methods is looked up when it is called. */
class ForeignCounts implements Counts {
  readonly source = 'redis'
  readonly clock: Clock | undefined
  readonly countsCalendars: true | undefined
  readonly serverOf?: (counted: CountedLimit, key: string) => string
  /** The denials of this process, because the store does not count them. */
  #strikes: MemoryCounts | undefined

  constructor(readonly store: Store) {
    this.clock = store.clock
    this.countsCalendars = store.countsCalendars
    if (store.serverOf !== undefined) this.serverOf = (counted, key) => serverOf(store, { ...counted, key })
  }

  bind(counted: readonly CountedLimit[]): BoundPolicy {
    return new ForeignPolicy(this, counted)
  }

  can(verb: Change['verb']): boolean {
    return this.store[verb] !== undefined
  }

  /** Counts in this process, and blocks in the store. */
  async strike(charge: Charge, denials: Denials, rule: BlockRule, endsAt?: number): Promise<Strikes> {
    this.#strikes ??= new MemoryCounts(this.clock ?? monotonicClock, 1_000_000)
    const counts = this.#strikes
    const strikes = counts.strike(charge, denials, rule)
    try {
      if (strikes.isNew) await this.store.block?.([charge], strikes.blockedMs, endsAt)
    } catch (error) {
      counts.block([charge], 0)
      throw error
    }
    return strikes
  }

  change({ verb, units, receipts = [] }: Change, charges: readonly Charge[], endsAt?: number): Answer<void> {
    const { store } = this
    if (verb === 'block') this.#strikes?.block(charges, units)
    if (verb === 'reset') return store.reset(charges, endsAt)
    if (verb !== 'giveBack') return store[verb]?.(charges, units, endsAt)
    return store.giveBack?.(
      charges.map((charge, i) => ({ ...charge, ...receipts[i] })),
      units,
      endsAt,
    )
  }
}

/** The counts of a store of express-rate-limit. */
class HitCounts extends ForeignCounts {
  constructor(override readonly store: HitStoreAdapter) {
    super(store)
  }

  override bind(counted: readonly CountedLimit[]): BoundPolicy {
    this.store.check(counted)
    return super.bind(counted)
  }
}

/** A store that fails to name the server is asked as if there were one. */
function serverOf(store: Store, charge: Charge): string {
  try {
    return store.serverOf?.(charge) ?? ''
  } catch {
    return ''
  }
}

/** A store that answers at once is taken for one in this process. */
const AT_ONCE: Origin = { source: 'memory' }

class ForeignPolicy implements BoundPolicy {
  readonly limits: readonly Limit[]

  constructor(
    readonly counts: ForeignCounts,
    readonly counted: readonly CountedLimit[],
  ) {
    this.limits = counted.map(({ limit }) => limit)
  }

  decide(verb: Verb, keys: Keys, cost: number, reply: Reply): void {
    const { store, clock = monotonicClock } = this.counts
    const charges = chargesFor(this.counted, keys)
    // It does not say when it charges: certainly not before it is asked.
    let askedAt: number
    let answer: Answer<readonly Verdict[]>
    try {
      askedAt = clock.now()
      answer = store[verb](charges, cost)
      if (!isPromise(answer)) {
        reply.resolve(checked(answer, charges.length), performance.now(), askedAt, AT_ONCE)
        return
      }
    } catch (error) {
      reply.reject(error)
      return
    }
    // Wrapped in a promise: a thenable may answer at once, before a listener is attached.
    Promise.resolve(answer)
      .then(verdicts => checked(verdicts, charges.length))
      .then(
        verdicts => reply.resolve(verdicts, performance.now(), askedAt),
        error => reply.reject(error),
      )
  }

  change(change: Change, keys: Keys, endsAt?: number): Answer<void> {
    return this.counts.change(change, chargesFor(this.counted, keys), endsAt)
  }
}

/** Users may write their own stores: an invalid answer counts as a failure of the store. */
function checked(verdicts: readonly Verdict[], count: number): readonly Verdict[] {
  let valid = Array.isArray(verdicts) && verdicts.length === count
  for (let i = 0; valid && i < count; i++) valid = isVerdict(verdicts[i])
  if (valid) return verdicts
  throw new StoreError(
    `the store answered ${shown(verdicts)}, expected a verdict for each of ${count} charges, with numbers ≥ 0`,
  )
}

function isVerdict(verdict: Partial<Verdict> | undefined): boolean {
  const { allowed, limit, remaining, retryAfterMs, resetAfterMs } = verdict ?? {}
  if (typeof allowed !== 'boolean' || typeof limit?.quota !== 'number') return false
  return [remaining, retryAfterMs, resetAfterMs].every(value => typeof value === 'number' && value >= 0)
}

function isPromise<T>(value: Answer<T>): value is Promise<T> {
  return typeof (value as Promise<T> | undefined)?.then === 'function'
}
