import { measure, type State } from './algorithms/registry.js'
import { spend } from './changes/changes.js'
import { type Limit, LONGEST_WINDOW_MS, parseLimit } from './core/limit.js'

/** Denials of a key that a process has not reported yet. */
export interface Denials {
  readonly count: number
  /** The age of the oldest of them, ms. */
  readonly ageMs: number
}

/** What the store says after it has counted denials of a key. */
export interface Strikes {
  /** For how much longer the key is blocked, ms; 0: it is not. */
  readonly blockedMs: number
  /** Whether these denials have blocked it; else a block in force was found. */
  readonly isNew: boolean
  /** The denials left before the block, ≥ 1; 0 if the key is blocked. */
  readonly left: number
  /** When the count begins anew, ms; 0 if the key is blocked. */
  readonly resetAfterMs: number
}

/** The states of a key's two counts: under `BlockRule.denials` and `BlockRule.blocks`. */
interface StrikeStates {
  readonly denials: State | undefined
  readonly blocks: State | undefined
}

/** What the counts of a key say. */
interface Memory {
  /** The denials since the last block, or in the present window. */
  readonly counted: number
  /** The number of the last block; 0: none, or forgotten. */
  readonly number: number
  /** How long ago it began, ms. */
  readonly ageMs: number
}

/** A number of blocks that no key reaches. */
const MAX_BLOCKS = 1_000_000_000

/**
 * When denials of a key block it, and for how long. All durations in ms. lua/limiter/strikes.lua is the
 * same in Redis.
 */
export class BlockRule {
  /** Counts denials since the last block. */
  readonly denials: Limit
  /** Counts blocks. Its window begins anew with each, so that the age of the window is the age of the last block. */
  readonly blocks: Limit

  constructor(
    /** So many denials within `windowMs` block the key. */
    readonly after: number,
    readonly windowMs: number,
    /** The first block. */
    readonly forMs: number,
    /** The ratio of each block to the one before it; 1: all blocks are equal. */
    readonly factor: number,
    readonly maxMs: number,
    /** How long after the end of its last block a key starts again with the first. */
    readonly forgetMs: number,
  ) {
    const algorithm = 'fixed-window'
    this.denials = parseLimit({ quota: after, window: windowMs, algorithm, name: 'denials' })
    // The last block is remembered for as long as denials from before its end may be reported.
    const window = Math.min(maxMs + Math.max(forgetMs, windowMs), LONGEST_WINDOW_MS)
    this.blocks = parseLimit({ quota: MAX_BLOCKS, window, algorithm, name: 'blocks' })
  }

  /** Counts denials of a key that is not blocked, and says whether they block it. */
  strike(
    reported: Denials,
    { denials, blocks }: StrikeStates,
    nowMs: number,
  ): { readonly strikes: Strikes; readonly next: StrikeStates } {
    const before = measure(this.denials, denials, nowMs, 0).verdict
    const last = measure(this.blocks, blocks, nowMs, 0).verdict
    const { counted, number } = this.#count(reported, {
      counted: this.after - before.remaining,
      number: MAX_BLOCKS - last.remaining,
      ageMs: this.blocks.windowMs - last.resetAfterMs,
    })
    if (number > 0) {
      const strikes = { blockedMs: this.lengthOf(number), isNew: true, left: 0, resetAfterMs: 0 }
      return { strikes, next: { denials: undefined, blocks: spend(this.blocks, undefined, nowMs, number) } }
    }
    const added = spend(this.denials, denials, nowMs, counted - this.after + before.remaining)
    const { remaining, resetAfterMs } = measure(this.denials, added, nowMs, 0).verdict
    const strikes = { blockedMs: 0, isNew: false, left: remaining, resetAfterMs }
    return { strikes, next: { denials: added, blocks } }
  }

  /** The new count, or the number of the block that begins. */
  #count(denials: Denials, { counted, number, ageMs }: Memory): { counted: number; number: number } {
    const endedMs = ageMs - this.lengthOf(number)
    // Denials from before the end of the last block have no part in the next, except the one that is reported now.
    const isOld = number > 0 && endedMs >= 0 && denials.ageMs > endedMs
    const sum = counted + (isOld ? 1 : denials.count)
    if (sum < this.after) return { counted: sum, number: 0 }
    return { counted: 0, number: number > 0 && endedMs <= this.forgetMs ? number + 1 : 1 }
  }

  /** The length of a key's n-th block, ms. */
  lengthOf(number: number): number {
    return Math.min(this.maxMs, Math.round(this.forMs * this.factor ** Math.max(0, number - 1)))
  }
}
