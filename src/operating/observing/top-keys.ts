import type { Clock } from '../../limiter/core/clock.js'
import { ownCopy, shortKey } from '../../limiter/core/short-key.js'

/** Options of `TopKeys`. */
export interface TopKeysOptions {
  /**
   * How many keys are counted at a time; integer ≥ 1, default 512. Memory and the error bound depend on nothing else.
   */
  size?: number
  /** A count halves in this time; default 60 000 ms. Infinity: counts do not decay. */
  halfLifeMs?: number
  /** The clock of the decay; a clock that steps back counts as standing still. */
  clock: Clock
}

/** A key that is counted. Counts decay, so they have fractions. */
export interface TopKey {
  /** The key as given; above 200 characters its hash. */
  readonly key: string
  /** At least what the key has added, and at most `error` more. */
  readonly count: number
  /** How much of `count` may belong to other keys: at most `total` ÷ `size`. */
  readonly error: number
}

/** Weights grow instead of counts shrinking; at this weight all are rescaled, long before a float loses units. */
const LARGEST_WEIGHT = 2 ** 40

/**
 * The keys that come most often, of any number of keys, in memory of a fixed size: the space-saving sketch (Metwally,
 * Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements in data streams", 2005) with counts that
 * decay.
 *
 * Bound: a key that has added more than `total` ÷ `size` is always among those counted, and the count of each is too
 * high by at most its `error`, which is at most `total` ÷ `size`, and never too low. All numbers are decayed to the
 * same moment. With 512 keys that is a fifth of a percent of the traffic, whoever sends it.
 */
export class TopKeys {
  readonly #size: number
  readonly #halfLifeMs: number
  readonly #clock: Clock
  readonly #slots = new Map<string, number>()
  /** Of each slot the key, its count and its error, in units of the weight at `#since`. */
  readonly #keys: string[] = []
  readonly #counts: Float64Array
  readonly #errors: Float64Array
  /** The slots as a heap, the smallest count at its top; and where in it each slot stands. */
  readonly #heap: Int32Array
  readonly #places: Int32Array
  #total = 0
  #since: number
  #now: number
  #weight = 1

  constructor({ size = 512, halfLifeMs = 60_000, clock }: TopKeysOptions) {
    this.#size = size
    this.#halfLifeMs = halfLifeMs
    this.#clock = clock
    this.#counts = new Float64Array(size)
    this.#errors = new Float64Array(size)
    this.#heap = new Int32Array(size)
    this.#places = new Int32Array(size)
    this.#since = this.#now = clock.now()
  }

  /** How many keys are counted now. */
  get size(): number {
    return this.#keys.length
  }

  /** All that was added, decayed to now. */
  get total(): number {
    this.#advance()
    return this.#total / this.#weight
  }

  /** Counts a key once, or as often as `units` says. */
  add(given: string, units = 1): void {
    this.#advance()
    const key = shortKey(given)
    const weighed = units * this.#weight
    this.#total += weighed
    const known = this.#slots.get(key)
    if (known !== undefined) {
      this.#counts[known] += weighed
      this.#sink(this.#places[known])
    } else if (this.#keys.length < this.#size) {
      const slot = this.#keys.length
      this.#keys.push('')
      this.#fill(slot, key, weighed, 0)
      this.#stand(slot, slot)
      this.#rise(slot)
    } else {
      // The least frequent key gives up its slot, and its count remains as the error of the new one.
      const slot = this.#heap[0]
      const least = this.#counts[slot]
      this.#slots.delete(this.#keys[slot])
      this.#fill(slot, key, least + weighed, least)
      this.#sink(0)
    }
  }

  /** The keys with the highest counts, highest first. */
  top(most = 20): TopKey[] {
    this.#advance()
    const slots = this.#keys.map((_, slot) => slot).sort((a, b) => this.#counts[b] - this.#counts[a])
    return slots.slice(0, most).map(slot => ({
      key: this.#keys[slot],
      count: this.#counts[slot] / this.#weight,
      error: this.#errors[slot] / this.#weight,
    }))
  }

  /** Forgets all. */
  clear(): void {
    this.#slots.clear()
    this.#keys.length = 0
    this.#total = 0
  }

  #advance(): void {
    const now = this.#clock.now()
    if (now <= this.#now) return
    this.#now = now
    this.#weight = 2 ** ((now - this.#since) / this.#halfLifeMs)
    if (this.#weight >= LARGEST_WEIGHT) this.#rescale()
  }

  /** Brings all numbers to the weight 1. What has decayed to nothing keeps its place until another key wants it. */
  #rescale(): void {
    for (let slot = 0; slot < this.#keys.length; slot++) {
      this.#counts[slot] /= this.#weight
      this.#errors[slot] /= this.#weight
    }
    this.#total /= this.#weight
    this.#since = this.#now
    this.#weight = 1
  }

  #fill(slot: number, key: string, count: number, error: number): void {
    const own = ownCopy(key)
    this.#slots.set(own, slot)
    this.#keys[slot] = own
    this.#counts[slot] = count
    this.#errors[slot] = error
  }

  #stand(place: number, slot: number): void {
    this.#heap[place] = slot
    this.#places[slot] = place
  }

  /** Lets the slot at a place sink to where its count, which has grown, belongs. */
  #sink(from: number): void {
    const counts = this.#counts
    const heap = this.#heap
    const end = this.#keys.length
    const slot = heap[from]
    const count = counts[slot]
    let place = from
    for (;;) {
      let child = 2 * place + 1
      if (child >= end) break
      if (child + 1 < end && counts[heap[child + 1]] < counts[heap[child]]) child++
      if (count <= counts[heap[child]]) break
      this.#stand(place, heap[child])
      place = child
    }
    this.#stand(place, slot)
  }

  #rise(from: number): void {
    const slot = this.#heap[from]
    const count = this.#counts[slot]
    let place = from
    while (place > 0) {
      const parent = (place - 1) >> 1
      if (this.#counts[this.#heap[parent]] <= count) break
      this.#stand(place, this.#heap[parent])
      place = parent
    }
    this.#stand(place, slot)
  }
}
