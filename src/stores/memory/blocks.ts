const LOOKS_PER_BLOCK = 4

/** Who is blocked until when, under one limit. Those who are free again are let go a few at a time, as others come. */
export class BlockList {
  readonly #until = new Map<string, number>()
  #hand: MapIterator<[string, number]> | undefined

  block(key: string, untilAt: number, nowMs: number): void {
    this.#sweep(nowMs)
    this.#until.set(key, untilAt)
  }

  unblock(key: string): void {
    this.#until.delete(key)
  }

  /** For how much longer; 0 if it is not blocked. */
  remainingMs(key: string, nowMs: number): number {
    const untilAt = this.#until.get(key)
    return untilAt === undefined ? 0 : Math.max(0, untilAt - nowMs)
  }

  #sweep(nowMs: number): void {
    for (let i = 0; i < LOOKS_PER_BLOCK; i++) {
      this.#hand ??= this.#until.entries()
      const step = this.#hand.next()
      if (step.done) this.#hand = undefined
      else if (step.value[1] <= nowMs) this.#until.delete(step.value[0])
    }
  }
}
