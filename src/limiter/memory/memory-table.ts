import type { Algorithm, Row } from '../algorithms/algorithm.js'
import { algorithmOf, measure, type State } from '../algorithms/registry.js'
import { isEmptyNote, newNote, type RefundNote, settleableMs } from '../changes/refund-note.js'
import type { Verdict } from '../core/decision.js'
import { type AlgorithmName, fillMsOf, type Limit } from '../core/limit.js'
import { ownCopy, shortKey } from '../core/short-key.js'

/** Notes examined per addition: more than one, so that expired notes disappear faster than new ones come. */
const STEPS_PER_ADDITION = 2
const MAX_NOTES = 100_000

interface StoredNote {
  readonly note: RefundNote
  readonly until: number
}

/**
 * The settlement notes of one table's keys. A note outlives the key's state, because it also records
 * resets; it is removed when no decision that it concerns can give anything back.
 */
class RefundNotes {
  readonly #kept = new Map<string, StoredNote>()
  #lastUntil = Number.NEGATIVE_INFINITY

  /** The key's note, or a new one, which the caller must `keep` if it writes to it. */
  of(key: string, nowMs: number): RefundNote {
    const kept = this.#kept.get(shortKey(key))
    return kept === undefined || kept.until <= nowMs ? newNote() : kept.note
  }

  /** True if no note concerns any decision any more. */
  isOver(nowMs: number): boolean {
    return this.#lastUntil <= nowMs
  }

  keep(key: string, note: RefundNote, limit: Limit, nowMs: number): void {
    if (isEmptyNote(note)) return
    const text = ownCopy(shortKey(key))
    // Decisions of the limit before a change may be settled for longer than those of the present one.
    const until = Math.max(nowMs + settleableMs(limit), this.#kept.get(text)?.until ?? 0)
    this.#kept.delete(text)
    this.#kept.set(text, { note, until })
    this.#lastUntil = Math.max(this.#lastUntil, until)
    let steps = STEPS_PER_ADDITION
    for (const [oldest, { until }] of this.#kept) {
      if (steps-- === 0 || (until > nowMs && this.#kept.size <= MAX_NOTES)) return
      this.#kept.delete(oldest)
    }
  }
}

/**
 * Keys with a number each, which the sweeper visits in turn. Long keys are stored as hashes; `kept` is a key as it is
 * stored.
 */
export abstract class SweptKeys {
  protected readonly numbers = new Map<string, number>()
  #hand: MapIterator<[string, number]> | undefined

  get size(): number {
    return this.numbers.size
  }

  /** The next stored key in turn, and its number; undefined at the end of each round. */
  advance(): [kept: string, number: number] | undefined {
    this.#hand ??= this.numbers.entries()
    const step = this.#hand.next()
    if (!step.done) return step.value
    this.#hand = undefined
    return undefined
  }

  /** Removes a stored key; false if there is none. */
  abstract remove(kept: string): boolean
  /** How much longer the entry matters, ms; 0: it may go. */
  abstract lastsMs(number: number, nowMs: number): number
  /** How much longer the key is denied, ms; 0: it is not. */
  abstract deniedMs(kept: string, number: number, nowMs: number): number
}

/** The blocked keys of one limit, with the end of each block. */
export class BlockList extends SweptKeys {
  /** Blocks a key; replaces an earlier block. */
  block(key: string, untilAt: number): void {
    this.numbers.set(ownCopy(shortKey(key)), untilAt)
  }

  has(key: string): boolean {
    return this.numbers.has(shortKey(key))
  }

  /** How much longer the key is blocked, in ms; 0 if it is not. */
  remainingMs(key: string, nowMs: number): number {
    return this.remainingMsOf(shortKey(key), nowMs)
  }

  remainingMsOf(kept: string, nowMs: number): number {
    return this.lastsMs(this.numbers.get(kept) ?? nowMs, nowMs)
  }

  remove(kept: string): boolean {
    return this.numbers.delete(kept)
  }

  lastsMs(untilAt: number, nowMs: number): number {
    return Math.max(0, untilAt - nowMs)
  }

  deniedMs(_kept: string, untilAt: number, nowMs: number): number {
    return this.lastsMs(untilAt, nowMs)
  }
}

/**
 * The time of a decision, ms. Passed as an object, because V8 allocates one anyway for each number of this size that is
 * an argument of a function which it does not inline.
 */
export interface DecisionTime {
  readonly decidedAt: number
}

/** A column of states by slot number. */
interface Column {
  /** Returns the state; the caller must not change it. */
  read(slot: number): State
  write(slot: number, state: State): void
  consume(slot: number, limit: Limit, moment: DecisionTime, cost: number): Verdict
  clear(slot: number): void
}

const CHUNK_BITS = 10
const CHUNK_ROWS = 1 << CHUNK_BITS
const IN_CHUNK = CHUNK_ROWS - 1
/** Many limits have few keys: a table starts with few rows and doubles them up to a chunk. */
const FIRST_ROWS = 8

/**
 * The states of all keys under one limit. A key costs one entry of a `Map` and, for algorithms of constant state, one
 * row in flat arrays: for a million keys a fraction of the size of one object per key. Long keys are stored as hashes.
 */
export class MemoryTable extends SweptKeys {
  readonly algorithm: Algorithm<State>
  readonly #column: Column
  /**
   * The limit whose time states are kept for: that under which they were written, or a slower one that asked later.
   * Most tables have one.
   */
  #limit: Limit | undefined
  #otherLimits: Map<number, Limit> | undefined
  readonly #free: number[] = []
  #next = 0
  /** Undefined until the first block. */
  blocks: BlockList | undefined
  #notes: RefundNotes | undefined
  #abandoned = false

  constructor(
    readonly limiter: string,
    algorithm: AlgorithmName,
  ) {
    super()
    this.algorithm = algorithmOf(algorithm)
    const { row } = this.algorithm
    this.#column = row === undefined ? new ObjectColumn(this.algorithm) : new RowColumn(this.algorithm, row)
  }

  /** The settlement notes of this table's keys. */
  get notes(): RefundNotes {
    this.#notes ??= new RefundNotes()
    return this.#notes
  }

  /**
   * An abandoned table has been removed from the store, and is and stays empty; callers that still hold it must look it
   * up again.
   */
  get abandoned(): boolean {
    return this.#abandoned
  }

  abandon(): void {
    this.#abandoned = true
    this.numbers.clear()
  }

  slotOf(key: string): number | undefined {
    return this.numbers.get(shortKey(key))
  }

  read(slot: number): State {
    return this.#column.read(slot)
  }

  /** The limit that tells how long the state matters. */
  limitOf(slot: number): Limit {
    return this.#otherLimits?.get(slot) ?? this.#limit!
  }

  /** At quota 0 a bucket keeps its level for the limit after it: it stays for as long as it was to. */
  write(slot: number, state: State, limit: Limit): void {
    this.#column.write(slot, state)
    if (limit.quota > 0) this.#note(slot, limit)
  }

  /** Writes a corrected state without a spend: the limit of the state stays. */
  correct(slot: number, state: State): void {
    this.#column.write(slot, state)
  }

  /** Measures, and spends in place if it fits. */
  consume(slot: number, limit: Limit, moment: DecisionTime, cost: number): Verdict {
    const verdict = this.#column.consume(slot, limit, moment, cost)
    if (limit !== this.#limit || this.#otherLimits !== undefined) this.#noteConsumed(slot, limit, verdict, cost)
    return verdict
  }

  /** Under a slower limit a bucket takes longer to fill, so its state must be kept longer. */
  keepFor(slot: number, limit: Limit): void {
    const known = this.limitOf(slot)
    if (limit !== known && fillMsOf(limit) > fillMsOf(known)) this.#noteOther(slot, limit)
  }

  insert(key: string, state: State, limit: Limit): void {
    const slot = this.#free.pop() ?? this.#next++
    this.numbers.set(ownCopy(shortKey(key)), slot)
    this.#column.write(slot, state)
    // A debt that is charged at quota 0 stays for the limit after it, at least for a window.
    this.#note(slot, limit.quota > 0 ? limit : { ...limit, quota: 1, burst: 1 })
  }

  remove(kept: string): boolean {
    const slot = this.numbers.get(kept)
    if (slot === undefined) return false
    this.numbers.delete(kept)
    this.#column.clear(slot)
    this.#forgetOther(slot)
    this.#free.push(slot)
    return true
  }

  lastsMs(slot: number, nowMs: number): number {
    return measure(this.limitOf(slot), this.read(slot), nowMs, 0).verdict.resetAfterMs
  }

  deniedMs(kept: string, slot: number, nowMs: number): number {
    const { retryAfterMs } = measure(this.limitOf(slot), this.read(slot), nowMs, 1).verdict
    return Math.max(retryAfterMs, this.blocks?.remainingMsOf(kept, nowMs) ?? 0)
  }

  #noteConsumed(slot: number, limit: Limit, { allowed }: Verdict, cost: number): void {
    if (!allowed) this.keepFor(slot, limit)
    else if (cost > 0) this.#note(slot, limit)
  }

  #note(slot: number, limit: Limit): void {
    if (this.#limit === undefined || !lastsAlike(limit, this.#limit)) this.#noteOther(slot, limit)
    else this.#forgetOther(slot)
  }

  #noteOther(slot: number, limit: Limit): void {
    if (this.#limit === undefined) {
      this.#limit = limit
      return
    }
    this.#otherLimits ??= new Map()
    this.#otherLimits.set(slot, limit)
  }

  #forgetOther(slot: number): void {
    if (this.#otherLimits?.delete(slot) && this.#otherLimits.size === 0) this.#otherLimits = undefined
  }
}

/** Whether a state matters for as long under the one limit as under the other: two limiters may have one policy. */
function lastsAlike(a: Limit, b: Limit): boolean {
  return a === b || (a.quota === b.quota && a.windowMs === b.windowMs && a.burst === b.burst)
}

/**
 * Rows of numbers in chunks: growing copies at most one chunk, so that no call takes time in proportion to all keys.
 */
class RowColumn implements Column {
  readonly #chunks: Float64Array[] = []
  readonly #row: Row<State>
  readonly #algorithm: Algorithm<State>

  constructor(algorithm: Algorithm<State>, row: Row<State>) {
    this.#algorithm = algorithm
    this.#row = row
  }

  read(slot: number): State {
    return this.#row.read(this.#chunks[slot >> CHUNK_BITS], (slot & IN_CHUNK) * this.#row.width)
  }

  write(slot: number, state: State): void {
    const at = (slot & IN_CHUNK) * this.#row.width
    const known = this.#chunks[slot >> CHUNK_BITS]
    this.#row.write(known !== undefined && at < known.length ? known : this.#grow(slot), at, state)
  }

  // V8 makes no object of the state where it inlines all code that sees it.
  consume(slot: number, limit: Limit, moment: DecisionTime, cost: number): Verdict {
    const cells = this.#chunks[slot >> CHUNK_BITS]
    const at = (slot & IN_CHUNK) * this.#row.width
    const state = this.#row.read(cells, at)
    const verdict = this.#algorithm.consume(limit, state, moment.decidedAt, cost)
    this.#row.write(cells, at, state)
    return verdict
  }

  clear(): void {}

  #grow(slot: number): Float64Array {
    const chunk = slot >> CHUNK_BITS
    const small = this.#chunks[chunk]
    const most = CHUNK_ROWS * this.#row.width
    const cells = new Float64Array(
      chunk > 0 ? most : small === undefined ? FIRST_ROWS * this.#row.width : 2 * small.length,
    )
    if (small !== undefined) cells.set(small)
    this.#chunks[chunk] = cells
    return cells
  }
}

class ObjectColumn implements Column {
  readonly #states: Array<State | undefined> = []

  constructor(readonly algorithm: Algorithm<State>) {}

  read(slot: number): State {
    return this.#states[slot]!
  }

  write(slot: number, state: State): void {
    this.#states[slot] = state
  }

  consume(slot: number, limit: Limit, moment: DecisionTime, cost: number): Verdict {
    return this.algorithm.consume(limit, this.#states[slot]!, moment.decidedAt, cost)
  }

  clear(slot: number): void {
    this.#states[slot] = undefined
  }
}
