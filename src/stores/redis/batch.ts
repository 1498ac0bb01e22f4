import type { Asker, Charge } from '../store.js'
import type { BatchKind } from './batch-kind.js'

/** A script can pass at most 8000 arguments to a command, and MSET takes two per key. */
const MOST_KEYS = 3500
/** The script refuses the whole batch 50 ms after its first deadline, so no deadline may be later than that. */
const LONGEST_SPREAD_MS = 50

/** Decisions that share a script call. */
export class Batch {
  readonly askers: Asker[] = []
  readonly keys: string[]
  /** The first and the last deadline of its decisions, by `performance.now()`. */
  firstEndsAt = Number.POSITIVE_INFINITY
  lastEndsAt = Number.NEGATIVE_INFINITY
  readonly #costs: number[] = []
  #closed = false

  /** It holds at most `most` decisions, and at most the work that the server does in 1 ms. */
  constructor(
    readonly kind: BatchKind,
    readonly most: number,
  ) {
    this.keys = [...kind.sharedKeys]
  }

  /** Whether one more decision with this deadline fits. */
  takesMore(endsAt: number): boolean {
    if (this.#closed || this.askers.length >= this.most || this.askers.length >= this.kind.most) return false
    if (this.keys.length + this.kind.limits.length > MOST_KEYS) return false
    if (endsAt - this.firstEndsAt > LONGEST_SPREAD_MS) return false
    return this.lastEndsAt - endsAt <= LONGEST_SPREAD_MS
  }

  add(charges: readonly Charge[], cost: number, endsAt: number, asker: Asker): void {
    const { toKeys } = this.kind
    for (let i = 0; i < charges.length; i++) this.keys.push(toKeys[i](charges[i].key))
    this.#costs.push(cost)
    this.askers.push(asker)
    if (endsAt < this.firstEndsAt) this.firstEndsAt = endsAt
    if (endsAt > this.lastEndsAt) this.lastEndsAt = endsAt
  }

  /** The script arguments, from the limits on. `nowMs`: the server's clock, as far as it is known. */
  arguments(nowMs: () => number): string[] {
    return this.kind.arguments(this.#costs, nowMs)
  }

  /** Closes the batch: it is sent now, or dropped. */
  close(): void {
    this.#closed = true
  }

  reject(error: unknown): void {
    for (const asker of this.askers) asker.reject(error)
  }
}
