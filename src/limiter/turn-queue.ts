import { Alarm } from '../waiting/alarm.js'

/** One whose turn is known. */
export interface QueuedTurn {
  /** By `performance.now()`. */
  turnAt: number
  /** Given by the procession: who joined before comes before. */
  order?: number
  /** Its turn has come, and it has left. */
  arrive(): void
}

/**
 * Those of one key whose turns are known, in the order in which they were booked. One timer serves them, and they leave in order
 * even where two turns come in the same millisecond and clocks would blur which came first.
 */
export class TurnQueue {
  readonly #walkers: QueuedTurn[] = []
  #joined = 0
  readonly #alarm = new Alarm(() => setImmediate(() => this.#advance()))

  constructor(readonly onEmpty: () => void = () => {}) {}

  get empty(): boolean {
    return this.#walkers.length === 0
  }

  /** Whoever booked before comes first: an answer that took long on its way is corrected by one that took less. */
  join(walker: QueuedTurn): void {
    for (let i = this.#walkers.length - 1; i >= 0 && this.#walkers[i].turnAt > walker.turnAt; i--) {
      this.#walkers[i].turnAt = walker.turnAt
    }
    walker.order = this.#joined++
    this.#walkers.push(walker)
    this.#setAlarm()
  }

  /** The walker's turn comes in `waitMs`. */
  move(walker: QueuedTurn, waitMs: number): void {
    walker.turnAt = performance.now() + waitMs
    this.#setAlarm()
  }

  /** Takes back a walker that had arrived too early, before all who joined later. */
  rejoin(walker: QueuedTurn): void {
    const { order = 0 } = walker
    const place = this.#walkers.findIndex(other => (other.order ?? 0) > order)
    this.#walkers.splice(place < 0 ? this.#walkers.length : place, 0, walker)
    this.#setAlarm()
  }

  leave(walker: QueuedTurn): void {
    const place = this.#walkers.indexOf(walker)
    if (place < 0) return
    this.#walkers.splice(place, 1)
    this.#setAlarm()
  }

  #advance(): void {
    const now = performance.now()
    while (this.#walkers.length > 0 && this.#walkers[0].turnAt <= now) {
      const [walker] = this.#walkers.splice(0, 1)
      walker.arrive()
    }
    this.#setAlarm()
  }

  #setAlarm(): void {
    const first = this.#walkers[0]
    this.#alarm.set(first === undefined ? Number.POSITIVE_INFINITY : first.turnAt)
    if (first === undefined) this.onEmpty()
  }
}
