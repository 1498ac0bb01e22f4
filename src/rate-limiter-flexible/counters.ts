/** The points of a key and when they are forgotten, ms since 1970; null: never. */
export interface Counter {
  value: number
  expiresAt: number | null
}

const STEPS_PER_INSERTION = 2
const SWEEP_EVERY_MS = 1000
const SWEEP_BUDGET_MS = 1

/** Counters in memory. Expired ones are removed, a few with each new one and for at most 1 ms each second: a timer for each would cost more than counting. */
export class Counters {
  readonly #all = new Map<string, Counter>()
  #hand = this.#all.entries()
  #timer: ReturnType<typeof setTimeout> | undefined
  /** Whether this round has met one that expires later. */
  #met = false

  get(key: string, now: number): Counter | undefined {
    const counter = this.#all.get(key)
    return counter !== undefined && isOver(counter, now) ? undefined : counter
  }

  set(key: string, value: number, expiresAt: number | null, now: number): void {
    const counter = this.#all.get(key)
    if (counter !== undefined) {
      counter.value = value
      counter.expiresAt = expiresAt
    } else {
      for (let i = 0; i < STEPS_PER_INSERTION; i++) this.#step(now)
      this.#all.set(key, { value, expiresAt })
    }
    if (expiresAt !== null) this.#timer ??= this.#startTimer()
  }

  /** False if there is none. */
  delete(key: string, now: number): boolean {
    const counter = this.get(key, now)
    this.#all.delete(key)
    return counter !== undefined
  }

  clear(): void {
    this.#all.clear()
  }

  *entries(now: number): Generator<readonly [key: string, Readonly<Counter>]> {
    for (const entry of this.#all) if (!isOver(entry[1], now)) yield entry
  }

  /** Looks at one counter; false at the end of a round. */
  #step(now: number): boolean {
    const { done, value } = this.#hand.next()
    if (done) {
      this.#hand = this.#all.entries()
      return false
    }
    if (isOver(value[1], now)) this.#all.delete(value[0])
    else if (value[1].expiresAt !== null) this.#met = true
    return true
  }

  // Unreferenced: what has expired is no reason for a process to stay.
  #startTimer(): ReturnType<typeof setTimeout> {
    const timer = setTimeout(() => this.#sweep(), SWEEP_EVERY_MS)
    timer.unref?.()
    return timer
  }

  #sweep(): void {
    this.#timer = undefined
    const now = Date.now()
    const until = performance.now() + SWEEP_BUDGET_MS
    while (this.#step(now)) {
      if (performance.now() <= until) continue
      this.#timer = this.#startTimer()
      return
    }
    if (this.#met) this.#timer = this.#startTimer()
    this.#met = false
  }
}

function isOver({ expiresAt }: Counter, now: number): boolean {
  return expiresAt !== null && expiresAt <= now
}
