/** The units that a decision spent under one limit. */
export interface Receipt {
  /** When the units were charged, in whole ms by the clock of the store that charged them. */
  readonly chargedAt: number
  /** How many units were charged. */
  readonly cost: number
  /** `remaining` and `resetAfterMs` of the verdict that allowed them. */
  readonly remaining: number
  readonly resetAfterMs: number
}

/**
 * What a store remembers of a key's refunds and settlements beside its state. Without the note, an earlier decision could give back
 * units that others have spent since.
 */
export interface SettlementNote {
  /** The last refund or reset, ms; −Infinity: none. */
  cutAt: number
  /** Units refunded of what was charged until `cutAt`: of one decision's own units, that many may be gone already. */
  refunded: number
  /** Buckets: the level just after `cutAt`. */
  left: number
  /** Token bucket: units × ms that were given back out of the middle. See `token-bucket.ts`. */
  readonly gaps: Gap[]
}

/** `size` was given back. Units charged from `from` to `to` have come back that much earlier. */
export interface Gap {
  readonly from: number
  readonly to: number
  readonly size: number
}

/** The note of a key that was reset: nothing that was charged before is left. */
export function resetNote(nowMs: number): SettlementNote {
  // A charge in the same ms counts as later.
  return { cutAt: nowMs - 1, refunded: Number.MAX_SAFE_INTEGER, left: 0, gaps: [] }
}

export function newNote(): SettlementNote {
  return { cutAt: Number.NEGATIVE_INFINITY, refunded: 0, left: 0, gaps: [] }
}

/** How many units of a decision's own certainly still count, after refunds. */
export function ownLeft({ chargedAt, cost }: Receipt, { cutAt, refunded }: SettlementNote): number {
  return chargedAt <= cutAt ? Math.max(0, cost - refunded) : cost
}

/** Notes a refund of so many units that were spent; `continues` if earlier ones still matter. */
export function noteRefund(note: SettlementNote, nowMs: number, units: number, continues: boolean): void {
  if (units === 0) return
  note.refunded = Math.min(Number.MAX_SAFE_INTEGER, continues ? note.refunded + units : units)
  note.cutAt = nowMs
}
