import { afterIo } from '../../limiter/core/clock.js'
import { SpillwayError, StoreError } from '../../limiter/core/errors.js'
import { notify, type Observer } from '../../limiter/core/observer.js'
import { emitWarning } from '../../limiter/core/warnings.js'
import { textOf } from './record.js'

/** So many failures in a row are trouble; one that took so long is at once. */
const IN_A_ROW = 3
const LONG_MS = 1000
/** While it lasts, and if it returns, it is told at most once in this time. */
const AGAIN_MS = 60_000

/** What a consumer needs, each of which may fail by itself: a limiter stands for itself. */
type Need = 'fetch' | 'settlement' | 'wake-up' | object

/**
 * Tells that the consumers of one queue object cannot work: once when it begins, then once a minute while it lasts. The
 * observer receives `consumerFailed`; without one it is a process warning (SPILLWAY_QUEUE), and one more when it is
 * over.
 */
export class ConsumerTrouble {
  readonly #subject: string
  readonly #queue: string
  readonly #observer: Observer | undefined
  /** How often each need has failed in a row. */
  readonly #failures = new Map<Need, number>()
  /** The needs that are in trouble, with their last error. */
  readonly #errors = new Map<Need, Error>()
  /** What was reported in this turn of the event loop: one error of several consumers counts once. */
  readonly #reported = new Set<unknown>()
  #toldAt = Number.NEGATIVE_INFINITY
  #beganAt = 0
  /** The trouble that lasts has been told. */
  #isTold = false
  #timer: ReturnType<typeof setTimeout> | undefined

  /** `subject` names the queue in warnings, `queue` for the observer. */
  constructor(subject: string, queue: string, observer: Observer | undefined) {
    this.#subject = subject
    this.#queue = queue
    this.#observer = observer
  }

  /** `tookMs`: how long nothing was heard before it failed; Infinity: that it failed at all is trouble. */
  failed(need: Need, cause: unknown, tookMs = 0): void {
    if (this.#reported.has(cause)) return
    if (this.#reported.size === 0) afterIo(() => this.#reported.clear())
    this.#reported.add(cause)
    const failures = (this.#failures.get(need) ?? 0) + 1
    this.#failures.set(need, failures)
    if (failures < IN_A_ROW && tookMs < LONG_MS) return
    if (this.#errors.size === 0) this.#beganAt = performance.now()
    this.#errors.set(need, this.#errorOf(cause))
    if (this.#timer === undefined) this.#tellIfDue()
  }

  works(need: Need): void {
    this.#failures.delete(need)
    if (!this.#errors.delete(need) || this.#errors.size > 0) return
    const seconds = ((performance.now() - this.#beganAt) / 1000).toFixed(1)
    if (this.#isTold && this.#observer === undefined)
      emitWarning('SPILLWAY_QUEUE', `the consumers of ${this.#subject} work again, after ${seconds} s`)
    this.close()
  }

  /** Nobody asks for it any more: it neither fails nor works. */
  forget(need: Need): void {
    this.#failures.delete(need)
    if (this.#errors.delete(need) && this.#errors.size === 0) this.close()
  }

  /** Nothing fails any more: also called when the last consumer has closed. */
  close(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#isTold = false
    this.#failures.clear()
    this.#errors.clear()
  }

  #tellIfDue(): void {
    const waitMs = this.#toldAt + AGAIN_MS - performance.now()
    if (waitMs <= 0) this.#tell()
    this.#timer = setTimeout(() => this.#tellIfDue(), waitMs > 0 ? waitMs : AGAIN_MS)
    this.#timer.unref?.()
  }

  #tell(): void {
    this.#toldAt = performance.now()
    this.#isTold = true
    const [error] = this.#errors.values()
    notify(this.#observer, 'consumerFailed', { queue: this.#queue, error })
    if (this.#observer === undefined) {
      const text = `the consumers of ${this.#subject} cannot work (${error.message}): until they can, messages wait`
      emitWarning('SPILLWAY_QUEUE', text)
    }
  }

  #errorOf(cause: unknown): Error {
    if (cause instanceof SpillwayError) return cause
    return new StoreError(`${this.#subject}: waiting for wake-ups failed: ${textOf(cause)}`, { cause })
  }
}
