import { Alarm } from '../../limiter/core/alarms.js'
import { LONGEST_TIMER_MS } from '../../limiter/core/clock.js'
import { LevelMeters } from '../../limiter/core/meters.js'
import { CHANNELS, notify, type Observer, tell } from '../../limiter/core/observer.js'

/** The server is asked for the levels of a queue at most this often, and this often while a message is overdue. */
const EVERY_MS = 1000
/** While messages are there, whoever consumes them: what was told last must not stand for long. */
const WHILE_FULL_MS = 10_000

/** What a watch asks the server. */
export interface QueueLevels {
  readonly depth: number
  /** For how long the oldest ready message has been due, ms; 0 if none is. */
  readonly overdueMs: number
  /** In how many ms the next delayed message is due; Infinity if there is none. */
  readonly nextDueMs: number
}

/** How a delivery was settled. */
export type DeliveryOutcome = 'ack' | 'nack' | 'dead' | 'stale'

/** Reports the events of one queue's messages to its observer and the channels. */
export class QueueWatch {
  readonly #meters: LevelMeters
  readonly #alarm = new Alarm(() => this.#ask(), false)
  #asking = false
  #askedAt = Number.NEGATIVE_INFINITY
  #changed = false
  #closed = false

  /** `levels` asks the server. */
  constructor(
    readonly observer: Observer | undefined,
    readonly queue: string,
    readonly levels: () => Promise<QueueLevels>,
  ) {
    this.#meters = new LevelMeters(observer, 'queue', queue)
  }

  delivered(latenessMs: number, attempt: number): void {
    notify(this.observer, 'delivered', { queue: this.queue, latenessMs: Math.max(0, latenessMs), attempt })
  }

  settled(outcome: DeliveryOutcome, durationMs: number): void {
    this.changed()
    notify(this.observer, 'settledDelivery', { queue: this.queue, outcome, durationMs })
  }

  /**
   * This process has changed the queue, or begins to consume it: asks for its levels shortly, at most once a second.
   */
  changed(): void {
    if (this.#changed || this.#closed || this.#meters.heard.length === 0) return
    this.#changed = true
    if (!this.#asking) this.#alarm.set(this.#askedAt + EVERY_MS)
  }

  close(): void {
    this.#closed = true
    this.#alarm.clear()
  }

  async #ask(): Promise<void> {
    this.#asking = true
    this.#changed = false
    this.#askedAt = performance.now()
    let againMs = EVERY_MS
    try {
      const { depth, overdueMs, nextDueMs } = await this.levels()
      for (const meter of this.#meters.heard) meter.set({ depth, overdueMs })
      // Nobody may be left to take the messages: then nothing else would tell that they are late.
      if (overdueMs === 0 && !this.#changed)
        againMs = Math.min(nextDueMs + EVERY_MS, depth > 0 ? WHILE_FULL_MS : nextDueMs)
    } catch {
      // Failures of Redis are reported elsewhere.
    }
    this.#asking = false
    if (againMs < LONGEST_TIMER_MS && !this.#closed) this.#alarm.set(this.#askedAt + againMs)
  }
}

/** The watches of all queue objects with the same queue in this process. */
export class QueueWatches extends Set<QueueWatch> {
  /** `count` messages became dead letters because their last visibility ended: reports them once to each observer. */
  buried(count: number): void {
    if (count === 0 || this.size === 0) return
    const watches = new Map([...this].map(watch => [watch.observer, watch]))
    for (const watch of watches.values()) watch.changed()
    const [{ queue }] = this
    for (const observer of new Set([...watches.keys(), CHANNELS])) {
      if (observer === undefined) continue
      for (let i = 0; i < count; i++) tell(observer, 'settledDelivery', { queue, outcome: 'dead', durationMs: 0 })
    }
  }
}
