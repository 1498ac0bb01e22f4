import { emitWarning } from './warning.js'

/** This many failed decisions in a row count as an outage. */
const IN_A_ROW = 3
/** At most one pair of warnings per this time. */
const EVERY_MS = 60_000

/**
 * Reports one store's outage by process warnings (SPILLWAY_STORE): one when it begins and one when the store answers again, at most
 * one such pair a minute.
 */
export class OutageWarnings {
  #failures = 0
  #warnedAt = Number.NEGATIVE_INFINITY
  #warned = false

  /** `store` names the store, like "RedisStore at 127.0.0.1:6379". Times are by `nowMs`, a monotonic clock. */
  constructor(
    readonly store: () => string,
    readonly nowMs: () => number = () => performance.now(),
  ) {}

  /** The store failed one decision. `meanwhile` is a clause that says who decides instead. */
  failed(meanwhile: string, error: Error | undefined): void {
    if (++this.#failures >= IN_A_ROW) this.#warn(meanwhile, error)
  }

  /** The store is no longer asked. */
  breakerOpened(meanwhile: string, error: Error): void {
    this.#failures = Math.max(this.#failures, IN_A_ROW)
    this.#warn(meanwhile, error)
  }

  answered(): void {
    if (this.#failures === 0) return
    this.#failures = 0
    if (!this.#warned) return
    this.#warned = false
    const seconds = ((this.nowMs() - this.#warnedAt) / 1000).toFixed(1)
    emit(`${this.store()} answers again, ${seconds} s after it was found to fail`)
  }

  #warn(meanwhile: string, error: Error | undefined): void {
    const nowMs = this.nowMs()
    if (this.#warned || nowMs - this.#warnedAt < EVERY_MS) return
    this.#warned = true
    this.#warnedAt = nowMs
    const reason = error === undefined ? '' : ` (${error.message})`
    emit(`${this.store()} does not answer${reason}: until it does, ${meanwhile}`)
  }
}

function emit(text: string): void {
  emitWarning('SPILLWAY_STORE', text)
}
