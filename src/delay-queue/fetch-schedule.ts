import { ServerClock } from '../redis/server-clock.js'
import type { FetchReply } from './settle-and-fetch.js'

/** Interval of the safety check for missed wake-ups and for deliveries of processes that died. */
const SAFETY_MS = 20_000
/** The interval if the client provides no connection for wake-ups. */
const UNWAKEABLE_MS = 1000
/** The process that is woken second asks after this time, to take what the first has left. */
const SECOND_MS = 100
/** A process that always finds others faster asks this much later, at first and at most. */
const STEP_BACK_MS = 4
const LONGEST_STEP_BACK_MS = 16
/** A message that is due within this time is fetched by the call that settles. */
const SHARE_MS = 3

const NEVER = Number.POSITIVE_INFINITY

/** Decides when this process asks the queue next. Moments are by `performance.now()`. */
export class FetchSchedule {
  readonly #serverClock = new ServerClock()
  /** When the next message is due. */
  #nextAt = NEVER
  /** When the next visibility of any delivery, in any process, ends. */
  #nextEndAt = NEVER
  /** When to ask after this process was woken second. */
  #secondAt = NEVER
  #lookedAt = Number.NEGATIVE_INFINITY
  #stepBackMs = 0

  /** When to ask next. `able`: this process can be woken. */
  at(able: boolean): number {
    const safetyAt = performance.now() + (able ? SAFETY_MS : UNWAKEABLE_MS)
    return Math.min(this.#nextAt + this.#stepBackMs, this.#nextEndAt, this.#secondAt, safetyAt)
  }

  /** False if no message is known to become due. */
  get knowsNext(): boolean {
    return this.#nextAt < NEVER
  }

  /** True if the next message is due so shortly that a settlement can wait for its fetch. */
  get dueWithShare(): boolean {
    return this.#nextAt + this.#stepBackMs - performance.now() < SHARE_MS
  }

  /** A message becomes due in `delayMs`, and no other process is woken for it. True if that is earlier than the next known one. */
  expect(delayMs: number): boolean {
    const at = performance.now() + delayMs
    if (at >= this.#nextAt) return false
    this.#nextAt = at
    return true
  }

  /** This process was woken second. */
  askAsSecond(): void {
    this.#secondAt = Math.min(this.#secondAt, performance.now() + SECOND_MS)
  }

  /** Other processes watch for the next due messages. */
  handOver(): void {
    this.#nextAt = NEVER
  }

  /** The events that are due now, each reported once: the caller asks, or wakes others. */
  ring(): { due: boolean; ended: boolean; second: boolean } {
    const now = performance.now()
    const rung = { due: now >= this.#nextAt, ended: now >= this.#nextEndAt, second: now >= this.#secondAt }
    if (rung.due) this.#nextAt = NEVER
    if (rung.ended) this.#nextEndAt = NEVER
    if (rung.second) this.#secondAt = NEVER
    return rung
  }

  /** True if ended visibilities must be searched again. */
  overdueLook(askedAt: number): boolean {
    return askedAt >= this.#nextEndAt || askedAt - this.#lookedAt >= SAFETY_MS
  }

  /** This process asks, and searches for everything that it may have been woken for. */
  looks(): void {
    this.#secondAt = NEVER
  }

  /** The answer to a fetch sent at `askedAt`; `rang`: it was sent because the timer for the next message rang. */
  learn({ nowMs, nextAt, nextEndAt, taken }: FetchReply, askedAt: number, rang: boolean): void {
    const now = performance.now()
    this.#serverClock.learn(nowMs)
    // A moment in the future of the server's clock cannot be past by ours, unless the server's clock was set back.
    if (nextAt > nowMs && (this.#serverClock.momentOf(nextAt) as number) <= askedAt) {
      this.#serverClock.forget()
      this.#serverClock.learn(nowMs)
    }
    const here = (at: number) => (at === NEVER ? at : (this.#serverClock.momentOf(at) ?? now))
    this.#nextAt = here(nextAt)
    if (nextEndAt !== undefined) {
      this.#nextEndAt = here(nextEndAt)
      this.#lookedAt = askedAt
    }
    for (const { untilHere } of taken) this.#nextEndAt = Math.min(this.#nextEndAt, untilHere)
    if (taken.length === 0) {
      if (rang) this.#stepBackMs = Math.min(LONGEST_STEP_BACK_MS, this.#stepBackMs * 2 || STEP_BACK_MS)
    } else if (taken.some(({ dueAt }) => nowMs - dueAt >= this.#stepBackMs)) {
      // No other process took it in time.
      this.#stepBackMs = 0
    }
  }
}
