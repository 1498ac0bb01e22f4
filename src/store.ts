import type { Clock } from './clock.js'
import type { Verdict } from './decision.js'
import type { Limit } from './limit.js'

/** What is counted: a key under a limit. */
export interface Charge {
  readonly key: string
  readonly limit: Limit
  /** The name of the limiter that asks; absent: 'default'. Limiters of different names never share their counts. */
  readonly limiter?: string
}

/**
 * Where state lives. Every call measures all its charges at one instant and spends from all or from none, by the store's
 * own clock.
 */
export interface Store {
  consume(charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> | readonly Verdict[]
  /** The verdicts that `consume` would give; changes nothing. */
  peek(charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> | readonly Verdict[]
  /** Gives back at most what is spent, newest first. */
  refund(charges: readonly Charge[], cost: number): Promise<void> | void
  reset(charges: readonly Charge[]): Promise<void> | void
  /** Spends though it may not fit: what a request turned out to cost beyond what was asked. Without it nothing is added. */
  charge?(charges: readonly Charge[], cost: number): Promise<void> | void
  /** Denies each charge for so long, whatever was spent; 0 lifts that. Without it, blocks are kept by the limiter's process. */
  block?(charges: readonly Charge[], forMs: number): Promise<void> | void
  close?(): Promise<void> | void
  /** If given, what is cached in process (denials) is timed by it; else by a monotonic clock. */
  readonly clock?: Clock
}

export const DEFAULT_LIMITER = 'default'
