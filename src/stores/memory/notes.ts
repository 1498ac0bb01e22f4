import { newNote, type SettlementNote } from '../../algorithms/settlement-note.js'
import { fillMsOf, type Limit } from '../../core/limit.js'
import { ownCopy, shortKey } from '../../core/short-key.js'

/** Notes examined per addition: more than one, so that expired notes disappear faster than new ones come. */
const STEPS_PER_ADDITION = 2
const MOST_NOTES = 100_000

interface Kept {
  readonly note: SettlementNote
  readonly until: number
}

/**
 * The settlement notes of one table's keys. A note outlives the key's state, because it also records
 * resets; it is removed when no decision that it concerns can give anything back.
 */
export class SettlementNotes {
  readonly #kept = new Map<string, Kept>()
  #lastUntil = Number.NEGATIVE_INFINITY

  /** The key's note, or a new one, which the caller must `keep` if it writes to it. */
  of(key: string, nowMs: number): SettlementNote {
    const kept = this.#kept.get(shortKey(key))
    return kept === undefined || kept.until <= nowMs ? newNote() : kept.note
  }

  /** True if no note concerns any decision any more. */
  isOver(nowMs: number): boolean {
    return this.#lastUntil <= nowMs
  }

  keep(key: string, note: SettlementNote, limit: Limit, nowMs: number): void {
    if (note.cutAt === Number.NEGATIVE_INFINITY && note.gaps.length === 0) return
    const text = ownCopy(shortKey(key))
    // Decisions of the limit before a change may be settled for longer than those of the present one.
    const until = Math.max(nowMs + lastsMs(limit), this.#kept.get(text)?.until ?? 0)
    this.#kept.delete(text)
    this.#kept.set(text, { note, until })
    this.#lastUntil = Math.max(this.#lastUntil, until)
    let steps = STEPS_PER_ADDITION
    for (const [oldest, { until }] of this.#kept) {
      if (steps-- === 0 || (until > nowMs && this.#kept.size <= MOST_NOTES)) return
      this.#kept.delete(oldest)
    }
  }
}

/** How long after its charge a decision may have something to give back. */
function lastsMs(limit: Limit): number {
  return Math.max(2 * limit.windowMs, fillMsOf(limit))
}
