import type { Clock } from '../core/clock.js'
import { ownCopy, shortKey } from '../core/short-key.js'

/** Options of `TopKeys`. */
export interface TopKeysOptions {
  /** How many keys are counted at a time; integer ≥ 1, default 512. Memory and the error bound depend on nothing else. */
  size?: number
  /** After so long a count has halved; default 60 000 ms. Infinity: counts do not decay. */
  halfLifeMs?: number
  /** Whose time counts; a clock that steps back is taken to stand still. */
  clock: Clock
}

/** A key that is counted. Counts decay, so they have fractions. */
export interface TopKey {
  /** The key as it was given; of more than 200 characters its hash. */
  readonly key: string
  /** At least what the key has added, and at most `error` more. */
  readonly count: number
  /** How much of `count` may be other keys': at most `total` ÷ `size`. */
  readonly error: number
}

/** Weights grow instead of counts shrinking; at this one all are brought back, long before a float loses units. */
const LARGEST_WEIGHT = 2 ** 40

/**
 * The keys that come most often, of any number of keys, in memory of a fixed size: the space-saving sketch (Metwally, Agrawal, El Abbadi,
 * "Efficient computation of frequent and top-k elements in data streams", 2005) with counts that decay.
 *
 * Bound: a key that has added more than `total` ÷ `size` is always among those counted, and the count of each is too high by at most its
 * `error`, which is at most `total` ÷ `size`, and never too low. All numbers are decayed to the same moment. With 512 keys that is a fifth of a
 * percent of the traffic, whoever sends it.
 */
export class TopKeys {
  readonly #size: number
  readonly #halfLifeMs: number
  readonly #clock: Clock
  /** Where in the heap a key stands. */
  readonly #places = new Map<string, number>()
  /** A heap, the smallest count at its top: of each place the key, its count and its error, in units of the weight at `#since`. */
  readonly #keys: string[] = []
  readonly #counts: Float64Array
  readonly #errors: Float64Array
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
    const place = this.#places.get(key)
    if (place !== undefined) {
      this.#counts[place] += weighed
      this.#sink(place)
    } else if (this.#keys.length < this.#size) {
      this.#keys.push('')
      this.#put(this.#keys.length - 1, ownCopy(key), weighed, 0)
      this.#rise(this.#keys.length - 1)
    } else {
      // The key that came least gives its place away, and its count stays as the error of the new one.
      const least = this.#counts[0]
      this.#places.delete(this.#keys[0])
      this.#put(0, ownCopy(key), least + weighed, least)
      this.#sink(0)
    }
  }

  /** The keys with the highest counts, highest first. */
  top(most = 20): TopKey[] {
    this.#advance()
    const places = this.#keys.map((_, place) => place).sort((a, b) => this.#counts[b] - this.#counts[a])
    return places.slice(0, most).map(place => ({
      key: this.#keys[place],
      count: this.#counts[place] / this.#weight,
      error: this.#errors[place] / this.#weight,
    }))
  }

  /** Forgets all. */
  clear(): void {
    this.#places.clear()
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
    for (let place = 0; place < this.#keys.length; place++) {
      this.#counts[place] /= this.#weight
      this.#errors[place] /= this.#weight
    }
    this.#total /= this.#weight
    this.#since = this.#now
    this.#weight = 1
  }

  #put(place: number, key: string, count: number, error: number): void {
    this.#keys[place] = key
    this.#counts[place] = count
    this.#errors[place] = error
    this.#places.set(key, place)
  }

  /** Lets a count that has grown sink to its place. */
  #sink(from: number): void {
    const counts = this.#counts
    const end = this.#keys.length
    for (let place = from; ; ) {
      let child = 2 * place + 1
      if (child >= end) return
      if (child + 1 < end && counts[child + 1] < counts[child]) child++
      if (counts[place] <= counts[child]) return
      this.#swap(place, child)
      place = child
    }
  }

  #rise(from: number): void {
    for (let place = from; place > 0; ) {
      const parent = (place - 1) >> 1
      if (this.#counts[parent] <= this.#counts[place]) return
      this.#swap(place, parent)
      place = parent
    }
  }

  #swap(a: number, b: number): void {
    const key = this.#keys[a]
    const count = this.#counts[a]
    const error = this.#errors[a]
    this.#put(a, this.#keys[b], this.#counts[b], this.#errors[b])
    this.#put(b, key, count, error)
  }
}
