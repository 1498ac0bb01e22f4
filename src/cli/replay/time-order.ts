/**
 * Sorts entries by time. Entries of the same second keep their order.
 *
 * Keeps at most `capacity` entries, 24 bytes each. If there are fewer, they are sorted as a whole. Otherwise the earlier half is
 * passed on each time the space is full, so that an entry is sorted correctly if it is at most half of `capacity` entries late. An entry that is
 * later still gets the second that is already reached: time does not run back.
 */
export class TimeOrder {
  /** Entries that came earlier than the one before them. */
  outOfOrder = 0
  /** Entries that came too late to find their place. */
  late = 0
  /** True if all entries were kept and sorted as a whole. */
  whole = true
  readonly #capacity: number
  readonly #give: (second: number, id: number, other: number) => void
  /** second × capacity + slot: one number that sorts natively and keeps the order of entries of one second. */
  readonly #ranks: Float64Array
  #ids: Int32Array
  #spareIds: Int32Array
  #others: Int32Array
  #spareOthers: Int32Array
  #size = 0
  #sorted = true
  #last = Number.NEGATIVE_INFINITY
  #reached = Number.NEGATIVE_INFINITY

  /** `capacity`: a power of two, at most 2^20, so that the ranks of seconds below 2^33 (the year 2242) are exact. */
  constructor(capacity: number, give: (second: number, id: number, other: number) => void) {
    this.#capacity = capacity
    this.#give = give
    this.#ranks = new Float64Array(capacity)
    this.#ids = new Int32Array(capacity)
    this.#spareIds = new Int32Array(capacity)
    this.#others = new Int32Array(capacity)
    this.#spareOthers = new Int32Array(capacity)
  }

  /** `other`: a second number, passed on with the first. */
  push(second: number, id: number, other = 0): void {
    if (this.#size === this.#capacity) {
      this.#release(this.#capacity / 2)
      this.whole = false
    }
    if (second < this.#last) this.outOfOrder++
    this.#last = second
    const slot = this.#size++
    const rank = second * this.#capacity + slot
    if (slot > 0 && rank < this.#ranks[slot - 1]) this.#sorted = false
    this.#ranks[slot] = rank
    this.#ids[slot] = id
    this.#others[slot] = other
  }

  /** Passes on all entries that are still kept. */
  flush(): void {
    this.#release(this.#size)
  }

  #release(count: number): void {
    if (!this.#sorted) this.#ranks.subarray(0, this.#size).sort()
    for (let i = 0; i < count; i++) {
      const second = Math.floor(this.#ranks[i] / this.#capacity)
      const slot = this.#ranks[i] - second * this.#capacity
      if (second < this.#reached) this.late++
      else this.#reached = second
      this.#give(this.#reached, this.#ids[slot], this.#others[slot])
    }
    this.#keepFrom(count)
  }

  #keepFrom(first: number): void {
    for (let i = first; i < this.#size; i++) {
      const second = Math.floor(this.#ranks[i] / this.#capacity)
      const before = this.#ranks[i] - second * this.#capacity
      const slot = i - first
      this.#spareIds[slot] = this.#ids[before]
      this.#spareOthers[slot] = this.#others[before]
      this.#ranks[slot] = second * this.#capacity + slot
    }
    this.#size -= first
    ;[this.#ids, this.#spareIds] = [this.#spareIds, this.#ids]
    ;[this.#others, this.#spareOthers] = [this.#spareOthers, this.#others]
    this.#sorted = true
  }
}
