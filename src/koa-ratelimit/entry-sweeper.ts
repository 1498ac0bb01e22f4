/** What one insertion looks at: more than one, so that the hand overtakes what has expired. */
const STEPS_PER_INSERTION = 2
const SWEEP_EVERY_MS = 1000
const SWEEP_BUDGET_MS = 1

/** As much of an entry as says when it ends. */
interface Ending {
  readonly reset: number
  readonly remaining: number
}

/**
 * Removes expired windows from a user's Map, a few at each insertion and for at most 1 ms each second. Values that are no windows stay.
 * One for each Map, however many middlewares use it.
 */
export class EntrySweeper {
  readonly #db: Map<string, Ending>
  #hand: MapIterator<[string, Ending]>
  /** Whether this round has met a window that runs. */
  #met = false
  #timer: ReturnType<typeof setTimeout> | undefined

  private constructor(db: Map<string, Ending>) {
    this.#db = db
    this.#hand = db.entries()
  }

  static of(db: Map<string, Ending>): EntrySweeper {
    let sweeper = SWEEPERS.get(db)
    if (sweeper === undefined) {
      sweeper = new EntrySweeper(db)
      SWEEPERS.set(db, sweeper)
    }
    return sweeper
  }

  /** Called before a window is added. */
  inserting(now: number): void {
    for (let i = 0; i < STEPS_PER_INSERTION; i++) this.#step(now)
    this.#timer ??= this.#startTimer()
  }

  /** Looks at one value; false at the end of a round. */
  #step(now: number): boolean {
    const { done, value } = this.#hand.next()
    if (done) {
      this.#hand = this.#db.entries()
      return false
    }
    const [key, entry] = value
    if (typeof entry?.reset !== 'number' || typeof entry.remaining !== 'number') return true
    if (Math.round(entry.reset * 1000) <= now) this.#db.delete(key)
    else this.#met = true
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

const SWEEPERS = new WeakMap<object, EntrySweeper>()
