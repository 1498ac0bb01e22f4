/** A Map or a WeakMap. */
interface Register<Key, Value> {
  get(key: Key): Value | undefined
  set(key: Key, value: Value): unknown
}

/** The value of a key; if there is none, one is made and kept. */
export function getOrMake<Key, Value>(register: Register<Key, Value>, key: Key, make: () => NoInfer<Value>): Value {
  const known = register.get(key)
  if (known !== undefined) return known
  const made = make()
  register.set(key, made)
  return made
}

function existingObject(holder: object): object {
  return holder
}

/**
 * Returns the given object from its constructor, so that a derived class can add private fields to an existing object.
 * Printing, copying or comparing the object does not show these fields, and they cost half as much as a WeakMap.
 */
export const ExistingObject = existingObject as unknown as new (holder: object) => object

/**
 * A map of at most `max` entries: for a further one, the oldest goes, and `dropped` is told. An entry that is set again
 * stays as old as it was.
 */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  constructor(
    public max: number,
    readonly dropped?: (value: Value) => void,
  ) {
    super()
  }

  override set(key: Key, value: Value): this {
    if (this.size >= this.max && !this.has(key)) {
      for (const [oldest, value] of this) {
        this.delete(oldest)
        this.dropped?.(value)
        break
      }
    }
    return super.set(key, value)
  }
}

/** Entries that each insertion looks at: more than one, so that the sweeper overtakes what has expired. */
export const STEPS_PER_INSERTION = 2
const SWEEP_EVERY_MS = 1000
const SWEEP_BUDGET_MS = 1

/** Sweeps for at most 1 ms each second, as long as something is left. */
export class BudgetedSweep {
  #timer: ReturnType<typeof setTimeout> | undefined

  /** `sweep` works until a moment of `performance.now()`, and returns whether something is left to sweep. */
  constructor(readonly sweep: (until: number) => boolean) {}

  start(): void {
    if (this.#timer !== undefined) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.sweep(performance.now() + SWEEP_BUDGET_MS)) this.start()
    }, SWEEP_EVERY_MS)
    // Unreferenced: what has expired is no reason for a process to stay.
    this.#timer.unref?.()
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}

/**
 * Removes expired entries from a map, a few at each insertion and for at most 1 ms each second: a timer for each entry
 * would cost more than counting.
 */
export class MapSweeper<Value> {
  #position: MapIterator<[string, Value]>
  /** Whether this round has met an entry that expires later. */
  #met = false
  readonly #sweep = new BudgetedSweep(until => this.#sweepUntil(until))

  /** `endOf` tells when a value expires, ms since 1970; undefined: it stays. */
  constructor(
    readonly map: Map<string, Value>,
    readonly endOf: (value: Value) => number | undefined,
  ) {
    this.#position = map.entries()
  }

  /** Called before an entry is added. */
  inserting(now: number): void {
    for (let i = 0; i < STEPS_PER_INSERTION; i++) this.#step(now)
  }

  /** Called when an entry is added or changed that expires. */
  start(): void {
    this.#sweep.start()
  }

  /** Looks at one entry; false at the end of a round. */
  #step(now: number): boolean {
    const { done, value } = this.#position.next()
    if (done) {
      this.#position = this.map.entries()
      return false
    }
    const end = this.endOf(value[1])
    if (end === undefined) return true
    if (end <= now) this.map.delete(value[0])
    else this.#met = true
    return true
  }

  #sweepUntil(until: number): boolean {
    const now = Date.now()
    while (this.#step(now)) if (performance.now() > until) return true
    const met = this.#met
    this.#met = false
    return met
  }
}
