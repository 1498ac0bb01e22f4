import { notify, type Observer } from '../core/observer.js'
import { Alarm } from '../waiting/alarm.js'
import { LevelMeter } from '../waiting/level-meter.js'

/** The server is asked for the depth of a queue at most this often. */
const DEPTH_EVERY_MS = 1000

/** How a delivery was settled. */
export type DeliveryOutcome = 'ack' | 'nack' | 'dead' | 'stale'

/** Reports the events of one queue's messages to an observer. */
export class QueueWatch {
  readonly #meter: LevelMeter | undefined
  readonly #alarm = new Alarm(() => this.#ask(), false)
  #asking = false
  #askedAt = Number.NEGATIVE_INFINITY
  #changed = false
  #closed = false

  /** `depth` asks the server for the number of messages in the queue. */
  constructor(
    readonly observer: Observer,
    readonly queue: string,
    readonly depth: () => Promise<number>,
  ) {
    this.#meter = LevelMeter.of(observer, 'queue', queue)
  }

  delivered(latenessMs: number, attempt: number): void {
    if (this.observer.delivered === undefined) return
    notify(this.observer, 'delivered', { queue: this.queue, latenessMs: Math.max(0, latenessMs), attempt })
  }

  settled(outcome: DeliveryOutcome, durationMs: number): void {
    this.changed()
    notify(this.observer, 'settledDelivery', { queue: this.queue, outcome, durationMs })
  }

  /** This process has changed the number of messages: asks for it shortly, at most once a second. */
  changed(): void {
    if (this.#meter === undefined || this.#changed || this.#closed) return
    this.#changed = true
    if (!this.#asking) this.#alarm.set(this.#askedAt + DEPTH_EVERY_MS)
  }

  close(): void {
    this.#closed = true
    this.#alarm.clear()
  }

  async #ask(): Promise<void> {
    this.#asking = true
    this.#changed = false
    this.#askedAt = performance.now()
    try {
      this.#meter?.set('depth', await this.depth())
    } catch {
      // Failures of Redis are reported elsewhere; the number is asked for again.
      this.changed()
    }
    this.#asking = false
    if (this.#changed && !this.#closed) this.#alarm.set(this.#askedAt + DEPTH_EVERY_MS)
  }
}

/** The watches of all queue objects with the same queue in this process. */
export class QueueWatches {
  readonly #watches = new Set<QueueWatch>()

  add(watch: QueueWatch | undefined): void {
    if (watch !== undefined) this.#watches.add(watch)
  }

  delete(watch: QueueWatch | undefined): void {
    if (watch !== undefined) this.#watches.delete(watch)
  }

  /** `count` messages became dead letters because their last visibility ended: reports them once to each observer. */
  buried(count: number): void {
    if (count === 0) return
    const watches = new Map([...this.#watches].map(watch => [watch.observer, watch]))
    for (const watch of watches.values()) {
      for (let i = 0; i < count; i++) watch.settled('dead', 0)
    }
  }
}
