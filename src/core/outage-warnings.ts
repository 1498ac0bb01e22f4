import { emitWarning } from './warning.js'

/** So many decisions in a row that the store did not answer are an outage. */
const IN_A_ROW = 3
/** At most one pair of warnings in so long. */
const EVERY_MS = 60_000

/**
 * Tells of one store's outage by process warnings (SPILLWAY_STORE): once when it begins and once when the store answers again, at most
 * one such pair a minute.
 */
export class OutageWarnings {
  #failures = 0
  #warnedAt = Number.NEGATIVE_INFINITY
  #warned = false

  /** `store` names the store: "RedisStore at 127.0.0.1:6379". Times are by `nowMs`, a monotonic clock. */
  constructor(
    readonly store: () => string,
    readonly nowMs: () => number = () => performance.now(),
  ) {}

  /** The store did not answer one decision. `meanwhile` says what answers in its place, in a clause. */
  failed(meanwhile: string, error: Error | undefined): void {
    if (++this.#failures >= IN_A_ROW) this.#warn(meanwhile, error)
  }

  /** The store is not asked any more. */
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
