import { ownCopy, shortKey } from '../../core/short-key.js'

/** The blocked keys of one limit, and when each block ends. Long keys are stored as hashes. */
export class BlockList {
  readonly #until = new Map<string, number>()
  #hand: MapIterator<[string, number]> | undefined

  get size(): number {
    return this.#until.size
  }

  /** Blocks a key; replaces an earlier block. */
  block(key: string, untilAt: number): void {
    this.#until.set(ownCopy(shortKey(key)), untilAt)
  }

  has(key: string): boolean {
    return this.#until.has(shortKey(key))
  }

  /** True if the key was blocked. */
  unblock(key: string): boolean {
    return this.#until.delete(shortKey(key))
  }

  /** How much longer the key is blocked, in ms; 0 if it is not. */
  remainingMs(key: string, nowMs: number): number {
    return this.remainingMsOf(shortKey(key), nowMs)
  }

  /** As `remainingMs`, for a stored key (hashed if long). */
  remainingMsOf(kept: string, nowMs: number): number {
    const untilAt = this.#until.get(kept)
    return untilAt === undefined ? 0 : Math.max(0, untilAt - nowMs)
  }

  /** Removes a stored key. */
  remove(kept: string): void {
    this.#until.delete(kept)
  }

  /** The next stored key in turn, and the end of its block; undefined at the end of each round. */
  advance(): [kept: string, untilAt: number] | undefined {
    this.#hand ??= this.#until.entries()
    const step = this.#hand.next()
    if (!step.done) return step.value
    this.#hand = undefined
    return undefined
  }
}
