import { fillMsOf, type Limit } from '../core/limit.js'

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
 * What a store remembers of a key's refunds and settlements beside its state. Without the note, settling an earlier
 * decision could give back units that other decisions have spent since.
 */
export interface RefundNote {
  /** The last refund or reset, ms; −Infinity: none. */
  cutAt: number
  /** Units refunded from charges up to `cutAt`: up to this many of a decision's own units may already be gone. */
  refunded: number
  /** Buckets: the level directly after `cutAt`. */
  left: number
  /** Buckets: the capacity under which `left` and `gaps` are counted, as of a level; 0: they are empty. */
  capacity: number
  /** Token bucket: units × ms that were given back from the middle of the level. */
  readonly gaps: Gap[]
}

/** `size` was given back. Units charged between `from` and `to` came back earlier by that amount. */
export interface Gap {
  readonly from: number
  readonly to: number
  readonly size: number
}

/** The note of a key that was reset: no earlier charge is left. */
export function resetNote(nowMs: number): RefundNote {
  // A charge in the same ms counts as made after the reset.
  return { ...newNote(), cutAt: nowMs - 1, refunded: Number.MAX_SAFE_INTEGER }
}

/** How long after its charge a decision may have something to give back, ms: for so long a note matters. */
export function settleableMs(limit: Limit): number {
  return Math.max(2 * limit.windowMs, fillMsOf(limit))
}

/** Whether the note says nothing. */
export function isEmptyNote({ cutAt, gaps }: RefundNote): boolean {
  return cutAt === Number.NEGATIVE_INFINITY && gaps.length === 0
}

export function newNote(): RefundNote {
  return { cutAt: Number.NEGATIVE_INFINITY, refunded: 0, left: 0, capacity: 0, gaps: [] }
}

/** How many of a decision's own units certainly still count after refunds. */
export function ownLeft({ chargedAt, cost }: Receipt, { cutAt, refunded }: RefundNote): number {
  return chargedAt <= cutAt ? Math.max(0, cost - refunded) : cost
}

/** Records a refund of `units` spent units; `continues` if earlier refunds still matter. */
export function noteRefund(note: RefundNote, nowMs: number, units: number, continues: boolean): void {
  if (units === 0) return
  note.refunded = Math.min(Number.MAX_SAFE_INTEGER, continues ? note.refunded + units : units)
  note.cutAt = nowMs
}
