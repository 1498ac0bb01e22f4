import type { Clock } from '../../limiter/core/clock.js'
import {
  newToken,
  type ScheduleReading,
  type ScheduleStore,
  type ScheduleText,
  type ScheduleWriting,
  tokenOf,
} from '../../waiting/queue/schedules.js'

const OPEN_MS = 10_000
/** Above this number, messages of further keys are not deferred: their requests are refused. */
const MOST_SCHEDULES = 100_000
/** How many of the oldest are examined for each addition. */
const SWEPT = 4

interface StoredSchedule {
  readonly text: string
  readonly endsAt: number
}

/** Schedules in this process, for queues that cannot keep them. */
export class ProcessSchedules implements ScheduleStore {
  readonly available = true
  /** The one unwritten for longest first. */
  readonly #kept = new Map<string, StoredSchedule>()

  constructor(readonly clock: Clock) {}

  get size(): number {
    return this.#kept.size
  }

  look(names: readonly string[]): ScheduleReading {
    return this.#read(names, Math.floor(this.clock.now()))
  }

  open(names: readonly string[]): ScheduleReading {
    const reading = this.look(names)
    const token = newToken()
    const texts = reading.texts.map((text, i) => {
      if (text !== '') return text
      this.#keep(names[i], token, reading.nowMs + OPEN_MS, reading.nowMs)
      return token
    })
    return { nowMs: reading.nowMs, texts }
  }

  write(names: readonly string[], texts: readonly ScheduleText[]): ScheduleWriting {
    const reading = this.look(names)
    const unchanged = texts.every(({ expected }, i) => tokenOf(reading.texts[i]) === expected)
    if (!unchanged) return { ...reading, written: false }
    for (const [i, { text, lifetimeMs }] of texts.entries()) {
      this.#keep(names[i], text, reading.nowMs + lifetimeMs, reading.nowMs)
    }
    return { nowMs: reading.nowMs, written: true, texts: texts.map(({ text }) => text) }
  }

  #read(names: readonly string[], nowMs: number): ScheduleReading {
    const texts = names.map(name => {
      const kept = this.#kept.get(name)
      return kept !== undefined && kept.endsAt > nowMs ? kept.text : ''
    })
    return { nowMs, texts }
  }

  #keep(name: string, text: string, endsAt: number, nowMs: number): void {
    if (!this.#kept.delete(name)) this.#sweep(nowMs)
    if (this.#kept.size < MOST_SCHEDULES) this.#kept.set(name, { text, endsAt })
  }

  #sweep(nowMs: number): void {
    let looked = 0
    for (const [name, kept] of this.#kept) {
      if (looked++ === SWEPT) return
      this.#kept.delete(name)
      // A schedule that is still needed moves to the end, so that each is examined in turn.
      if (kept.endsAt > nowMs) this.#kept.set(name, kept)
    }
  }
}
