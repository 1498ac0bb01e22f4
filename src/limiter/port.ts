import type { BlockRule, Denials, Strikes } from './block-rule.js'
import type { Receipt } from './changes/refund-note.js'
import type { Clock } from './core/clock.js'
import type { DecisionSource, StoreSource, Verdict } from './core/decision.js'
import type { Limit } from './core/limit.js'
import type { Observer } from './core/observer.js'
import type { OutageWarnings } from './core/warnings.js'
import type { Charge, ChargedAt } from './store.js'
import type { LineGuard, StoreLines } from './store-lines.js'

// What the limiter asks of a store. Our own stores implement this and nothing else; a store of a user, which has the
// methods of `Store`, is adapted to it in foreign-store.ts.

/** A limit under the name of a limiter: a charge without its key. */
export type CountedLimit = Pick<Charge, 'limit' | 'limiter'>

/** One key for all limits of a policy, or one for each of them. */
export type Keys = string | readonly string[]

export type Verb = 'consume' | 'peek'

/** Who has answered: the store, a lease, a remembered denial or the failure policy. Settling goes back to it. */
export interface Origin {
  readonly source: DecisionSource
  /** Whether it answered in place of the store, which failed. */
  readonly degraded?: true
}

/** Receives the outcome of one decision: exactly one of `resolve` and `reject`, once. The methods must not throw. */
export interface Reply {
  /**
   * By `performance.now()`: after this the decision is useless and is not carried out. Undefined: a second after the
   * request.
   */
  readonly endsAt?: number
  /** Called before a server is asked that can fail without the others: see `Counts.serverOf`. */
  movesTo?(server: string): void
  /**
   * One verdict for each limit. `answeredAt`: by `performance.now()`. `chargedAt`: by the clock of whoever answered.
   * `origin`: undefined for the store.
   */
  resolve(verdicts: readonly Verdict[], answeredAt: number, chargedAt?: ChargedAt, origin?: Origin): void
  reject(error: unknown): void
}

/** What is left of a key under each limit, and when that was so, by the clock of the store. */
export interface Standing {
  readonly limits: readonly Pick<Verdict, 'remaining' | 'resetAfterMs'>[]
  readonly at: number
}

/** A change of what keys may spend. */
export interface Change {
  readonly verb: 'refund' | 'giveBack' | 'charge' | 'reset' | 'block'
  /** How many; of a block its ms, 0 ends it; of a reset 0. */
  readonly units: number
  /**
   * Of a charge under a fixed window, in memory or Redis: a window that begins with it ends in so many ms, at most the
   * limit's.
   */
  readonly lastsMs?: number
  /** Of giveBack: what the decision spent under each limit. */
  readonly receipts?: readonly Receipt[]
  /** Of a settlement: who made the decision. */
  readonly from?: Origin
  /**
   * Of a charge of one key. Called when the answer is read, or the change has failed: before its promise is settled.
   * `standing`: after the charge; undefined if it failed.
   */
  readonly answered?: (standing?: Standing) => void
}

/** Decides without waiting: a store in this process, or a lease. */
export interface DecidesNow {
  /** Spends `cost` if it fits under every limit. Undefined: the policy has to be asked by `decide`. */
  decideNow(keys: Keys, cost: number): readonly Verdict[] | undefined
  /** When it decided last, by its clock, ms: in the object that notes it, because a copy would cost garbage. */
  readonly last: { readonly decidedAt: number }
  /** Who decided last. */
  readonly origin: Origin
}

/**
 * A policy of one limiter, as its store has prepared it: whatever depends on the limits alone has been looked up.
 * Features wrap it: each takes a bound policy and gives one.
 */
export interface BoundPolicy {
  readonly limits: readonly Limit[]
  readonly now?: DecidesNow | undefined
  /** True if units that others hold may come back at any moment, so that an answer says nothing of later requests. */
  readonly isLeased?: true | undefined
  /** Spends `cost` from all limits or from none, or only looks. May reply before it returns. */
  decide(verb: Verb, keys: Keys, cost: number, reply: Reply): void
  /** `endsAt`, by `performance.now()`: after this the change is no longer wanted. Rejects with `StoreError`. */
  change(change: Change, keys: Keys, endsAt?: number): Promise<void> | void
  /** Gives back what it holds. */
  close?(): Promise<void>
}

/** A store whose server gets more time until it has answered this process for the first time. */
export interface Connecting {
  /**
   * Calls that are made now end no sooner, by `performance.now()`: one moment for all, counted from the first question.
   * 0: the server has answered, or refused a connection.
   */
  connectsUntil(): number
}

/** The counts of a store. */
export interface Counts {
  /** What its decisions say of where they come from. */
  readonly source: StoreSource
  /** If present, remembered denials are timed by it; else by a monotonic clock. */
  readonly clock?: Clock | undefined
  /** True if it is in this process: it answers at once, and has no outages. */
  readonly isLocal?: true
  /** True if it supports calendar windows. */
  readonly countsCalendars?: true | undefined
  readonly connecting?: Connecting
  /** Where the counts are: two stores with equal parts share them. Absent: nowhere else. */
  readonly place?: readonly unknown[]
  /** Names the server that keeps a key, for stores with several servers that fail separately. */
  serverOf?(counted: CountedLimit, key: string): string
  /** Prepares limits that are decided together. `observer`: hears of leases. */
  bind(counted: readonly CountedLimit[], observer?: Observer): BoundPolicy
  /** Absent: it can make every change. */
  can?(verb: Change['verb']): boolean
  /** Counts denials of a key that is not blocked, and blocks it if they are too many, in one step. */
  strike?(charge: Charge, denials: Denials, rule: BlockRule, endsAt?: number): Promise<Strikes> | Strikes
  /** The waiting lines of one limiter. Absent: the store keeps none. */
  lines?(guard: LineGuard): StoreLines
  /** The warnings of an outage; `meanwhile` says what happens until it ends. */
  warnings?(meanwhile: string): OutageWarnings
}

export function keyAt(keys: Keys, place: number): string {
  return typeof keys === 'string' ? keys : keys[place]
}

/** The charges of these keys. */
export function chargesFor(counted: readonly CountedLimit[], keys: Keys): readonly Charge[] {
  return counted.map(({ limit, limiter }, i) => ({ key: keyAt(keys, i), limit, limiter }))
}

const KNOWN = new WeakMap<object, { readonly counts: Counts; readonly methods: object }>()

/** `store` has these counts, unless one of the methods that it has of its class is replaced. */
export function keepCounts(store: object, counts: Counts, methods: object): void {
  KNOWN.set(store, { counts, methods })
}

/** Whether two stores keep the same counts. */
export function shareCounts(one: unknown, two: unknown): boolean {
  if (one === two) return true
  const [a, b] = [knownCounts(one)?.place, knownCounts(two)?.place]
  return a !== undefined && b !== undefined && a.length === b.length && a.every((part, i) => part === b[i])
}

const METHODS = ['consume', 'peek', 'refund', 'giveBack', 'charge', 'reset', 'block'] as const

/**
 * The counts of one of our own stores. Undefined for any other value, and for a store whose methods a user has
 * replaced, to spy on them or to make them fail: then those are called.
 */
export function knownCounts(store: unknown): Counts | undefined {
  const known = typeof store === 'object' && store !== null ? KNOWN.get(store) : undefined
  if (known === undefined) return undefined
  const [given, own] = [store, known.methods] as Record<string, unknown>[]
  return METHODS.every(name => given[name] === own[name]) ? known.counts : undefined
}
