import { StoreError } from '../../limiter/core/errors.js'
import { notify, type Observer } from '../../limiter/core/observer.js'
import { OutageWarnings } from '../../limiter/core/warnings.js'
import type { RedisClient } from '../../redis/client.js'
import { redisWarnings } from '../../redis/clients.js'
import { isFault } from '../../redis/replies.js'

/** This many failures in a row open the breaker of an observer; a failure that took so long does at once. */
const IN_A_ROW = 3
const LONG_MS = 1000
/** The code of the warnings. */
const CODE = 'SPILLWAY_QUEUE'

/**
 * Reports that something which a consumer needs keeps failing: to the observer (`storeFailed`, `breakerOpened`,
 * `breakerClosed`), or without one by a pair of process warnings.
 */
export class FaultReport {
  readonly #observer: Observer | undefined
  readonly #warnings: OutageWarnings | undefined
  #failures = 0
  #opened = false

  constructor(observer: Observer | undefined, warnings: () => OutageWarnings) {
    this.#observer = observer
    this.#warnings = observer === undefined ? warnings() : undefined
  }

  /** `tookMs`: how long nothing was heard. */
  failed(error: Error, tookMs = 0): void {
    this.#failures++
    const opens = !this.#opened && (this.#failures >= IN_A_ROW || tookMs >= LONG_MS)
    notify(this.#observer, 'storeFailed', error)
    this.#warnings?.failed(error, opens)
    if (!opens) return
    this.#opened = true
    notify(this.#observer, 'breakerOpened', error)
  }

  succeeded(): void {
    this.#warnings?.answered()
    this.close()
  }

  /** Nothing fails any more: also called when the last consumer has closed. */
  close(): void {
    this.#failures = 0
    if (!this.#opened) return
    this.#opened = false
    notify(this.#observer, 'breakerClosed')
  }
}

/** Reports when the consumers of one queue object cannot fetch or settle, or are not woken. */
export class QueueHealth {
  readonly #subject: string
  readonly #observer: Observer | undefined
  /** Redis does not answer: one pair of warnings for all objects that share the client. */
  readonly #outage: FaultReport
  /** Redis answers, and refuses what the queue needs. */
  readonly #refusals: FaultReport
  readonly #settlements: FaultReport
  readonly #wakeups: FaultReport
  /** Several consumers report one error: it counts once. */
  #last: unknown

  constructor(client: RedisClient, subject: string, observer: Observer | undefined) {
    this.#subject = subject
    this.#observer = observer
    this.#outage = new FaultReport(observer, () => redisWarnings(client, `${subject} delivers no messages`, CODE))
    this.#refusals = this.#reportOf('the fetch', 'its consumers get no messages')
    this.#settlements = this.#reportOf('the settlement', 'messages that were handled come again')
    this.#wakeups = this.#reportOf('the wake-up (BZPOPMIN)', 'its consumers ask once a second')
  }

  /** A report on the limiter of one consumer. */
  limiter(): FaultReport {
    return this.#reportOf('the limiter of a consumer', 'it handles no messages')
  }

  /** `tookMs`: how long the fetch took to fail. */
  fetchFailed(error: unknown, tookMs: number): void {
    this.#failed(this.#refusals, error, tookMs)
  }

  fetched(): void {
    this.#outage.succeeded()
    this.#refusals.succeeded()
  }

  /** A handled message could not be settled; it is tried again. */
  settleFailed(error: unknown): void {
    this.#failed(this.#settlements, error)
  }

  settled(): void {
    this.#settlements.succeeded()
  }

  /** The connection for wake-ups failed, after nothing was heard for `silentMs`. */
  wakeupFailed(cause: unknown, silentMs: number): void {
    if (cause === this.#last) return
    this.#last = cause
    if (isFault(cause)) this.#wakeups.failed(this.#errorOf(cause))
    else this.#outage.failed(this.#errorOf(cause), silentMs)
  }

  wakeupWorks(): void {
    this.#wakeups.succeeded()
  }

  close(): void {
    for (const report of [this.#outage, this.#refusals, this.#settlements, this.#wakeups]) report.close()
  }

  #failed(refused: FaultReport, error: unknown, tookMs = 0): void {
    if (error === this.#last) return
    this.#last = error
    if (isFault((error as Error).cause)) refused.failed(error as Error)
    else this.#outage.failed(error as Error, tookMs)
  }

  #errorOf(cause: unknown): StoreError {
    return new StoreError(`${this.#subject}: waiting for wake-ups failed: ${(cause as Error)?.message}`, { cause })
  }

  #reportOf(what: string, meanwhile: string): FaultReport {
    const subject = `${what} of ${this.#subject}`
    return new FaultReport(this.#observer, () => new OutageWarnings({}, () => subject, meanwhile, undefined, CODE))
  }
}
