import type { Algorithm, RowAlgorithm } from '../algorithms/algorithm.js'
import { algorithmOf, isRowAlgorithm, type State } from '../algorithms/registry.js'
import type { AlgorithmName, Limit } from '../limit.js'
import type { BlockList } from './memory-blocks.js'
import type { Line } from './memory-line.js'

/** A column of states by slot number. */
interface Column {
  read(slot: number): State
  write(slot: number, state: State): void
  clear(slot: number): void
}

const CHUNK_BITS = 10
const CHUNK_ROWS = 1 << CHUNK_BITS
const IN_CHUNK = CHUNK_ROWS - 1

/**
 * The states of all keys under one limit. A key costs one entry of a `Map` and, for algorithms of constant state, one row in
 * flat arrays: at a million keys that is a fraction of what an object a key would take.
 */
export class MemoryTable {
  readonly algorithm: Algorithm<State>
  readonly #slots = new Map<string, number>()
  readonly #column: Column
  /** By whose quota states were written: plans may share a limit's name and differ in its quota. Most tables have one. */
  #limit: Limit | undefined
  readonly #otherLimits = new Map<number, Limit>()
  readonly #free: number[] = []
  #next = 0
  #hand: MapIterator<[string, number]> | undefined
  /** Who waits, by key; exists from the first booking on. */
  lines: Map<string, Line> | undefined
  /** Exists from the first block on. */
  blocks: BlockList | undefined
  /** An abandoned table was empty and has left the store; whoever still knows it must look it up again. */
  abandoned = false

  constructor(
    readonly limiter: string,
    algorithm: AlgorithmName,
  ) {
    this.algorithm = algorithmOf(algorithm)
    this.#column = isRowAlgorithm(this.algorithm) ? new RowColumn(this.algorithm) : new ObjectColumn()
  }

  get size(): number {
    return this.#slots.size
  }

  slotOf(key: string): number | undefined {
    return this.#slots.get(key)
  }

  read(slot: number): State {
    return this.#column.read(slot)
  }

  /** The limit that the state was last written under. */
  limitOf(slot: number): Limit {
    return this.#otherLimits.get(slot) ?? this.#limit!
  }

  write(slot: number, state: State, limit: Limit): void {
    this.#column.write(slot, state)
    if (limit !== this.#limit) this.#noteOther(slot, limit)
    else if (this.#otherLimits.size > 0) this.#otherLimits.delete(slot)
  }

  /** Under a lower quota what a bucket owes takes longer: it is not to be forgotten before. */
  keepFor(slot: number, limit: Limit): void {
    if (limit.quota > 0 && limit.quota < this.limitOf(slot).quota) this.#noteOther(slot, limit)
  }

  insert(key: string, state: State, limit: Limit): void {
    const slot = this.#free.pop() ?? this.#next++
    this.#slots.set(key, slot)
    this.write(slot, state, limit)
  }

  remove(key: string): boolean {
    const slot = this.#slots.get(key)
    if (slot === undefined) return false
    this.#slots.delete(key)
    this.#column.clear(slot)
    this.#otherLimits.delete(slot)
    this.#free.push(slot)
    return true
  }

  #noteOther(slot: number, limit: Limit): void {
    if (this.#limit === undefined) this.#limit = limit
    else this.#otherLimits.set(slot, limit)
  }

  /** The next entry under a hand that goes round and round; undefined at the end of each round. */
  advance(): [key: string, slot: number] | undefined {
    this.#hand ??= this.#slots.entries()
    const step = this.#hand.next()
    if (!step.done) return step.value
    this.#hand = undefined
    return undefined
  }
}

/** Rows of numbers in chunks: growing copies nothing, so no call pays for a million keys. */
class RowColumn implements Column {
  readonly #chunks: Float64Array[] = []

  constructor(readonly algorithm: RowAlgorithm<State>) {}

  read(slot: number): State {
    return this.algorithm.read(this.#chunks[slot >> CHUNK_BITS], (slot & IN_CHUNK) * this.algorithm.width)
  }

  write(slot: number, state: State): void {
    const chunk = slot >> CHUNK_BITS
    this.#chunks[chunk] ??= new Float64Array(CHUNK_ROWS * this.algorithm.width)
    this.algorithm.write(this.#chunks[chunk], (slot & IN_CHUNK) * this.algorithm.width, state)
  }

  clear(): void {}
}

class ObjectColumn implements Column {
  readonly #states: Array<State | undefined> = []

  read(slot: number): State {
    return this.#states[slot]!
  }

  write(slot: number, state: State): void {
    this.#states[slot] = state
  }

  clear(slot: number): void {
    this.#states[slot] = undefined
  }
}
