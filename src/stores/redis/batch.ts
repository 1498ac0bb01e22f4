import type { Asker, Charge } from '../store.js'
import type { BatchKind } from './batch-kind.js'

/** A script can hand no more than 8000 arguments to a command, and MSET takes two for a key. */
const MOST_KEYS = 3500

/** Decisions that share a script call. */
export class Batch {
  readonly openedAt = performance.now()
  readonly askers: Asker[] = []
  readonly keys: string[]
  readonly #costs: number[] = []
  #closed = false

  constructor(readonly kind: BatchKind) {
    this.keys = [...kind.blockLists]
  }

  /** Whether it takes one more, where a batch may hold so many. */
  takesMore(most: number): boolean {
    return !this.#closed && this.askers.length < most && this.keys.length + this.kind.limits.length <= MOST_KEYS
  }

  add(charges: readonly Charge[], cost: number, asker: Asker): void {
    const { toKeys } = this.kind
    for (let i = 0; i < charges.length; i++) this.keys.push(toKeys[i](charges[i].key))
    this.#costs.push(cost)
    this.askers.push(asker)
  }

  /** As the script reads them, from the limits on. */
  get arguments(): string[] {
    return this.kind.arguments(this.#costs)
  }

  /** It is asked for now, or given up. */
  close(): void {
    this.#closed = true
  }

  reject(error: unknown): void {
    for (const asker of this.askers) asker.reject(error)
  }
}
