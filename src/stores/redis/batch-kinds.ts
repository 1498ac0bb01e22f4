import type { Limit } from '../../core/limit.js'
import type { Charge } from '../store.js'
import { BatchKind } from './batch-kind.js'
import type { ChargeKeys } from './charge-keys.js'

/** A cache of batch kinds: creating one takes longer than a decision. */
export class BatchKinds {
  readonly #kinds = new WeakMap<Limit, Map<number, BatchKind[]>>()

  constructor(readonly keys: ChargeKeys) {}

  of(charges: readonly Charge[], tag: number): BatchKind {
    const { limit } = charges[0]
    let byTag = this.#kinds.get(limit)
    if (byTag === undefined) {
      byTag = new Map()
      this.#kinds.set(limit, byTag)
    }
    let kinds = byTag.get(tag)
    if (kinds === undefined) {
      kinds = []
      byTag.set(tag, kinds)
    }
    for (const kind of kinds) if (kind.suits(charges)) return kind
    const kind = new BatchKind(charges, tag, this.keys)
    kinds.push(kind)
    return kind
  }
}
