import { LONGEST_TIMER_MS } from '../../limiter/core/clock.js'
import { type Duration, parseDurationOrZero, parseOption } from '../../limiter/core/duration.js'
import { StaleDeliveryError } from '../../limiter/core/errors.js'
import { checkOptions } from '../../limiter/core/options.js'
import { type BackoffMs, LONGEST_DELAY_MS } from './backoff.js'
import type { SettlementKind, Taken } from './fetch.js'
import type { Fetcher } from './fetcher.js'
import type { DeliveryOutcome, QueueWatch } from './queue-watch.js'
import { begunReceipt, parseReceipt, type QueueRecord, reasonOf, textOf } from './record.js'

/**
 * A message delivered to this process. Settle it by `ack`, `nack` or `reject` before its visibility ends. Once it is
 * settled, or its visibility has ended, or the queue was cleared, these methods reject with `StaleDeliveryError` and
 * change nothing. When Redis fails they reject with `StoreError`, after 5 s at the latest, and may be called again.
 */
export interface Delivery<T> {
  /** The id given to `push`, or a random one. */
  readonly id: string
  /** The payload given to `push`, decoded by the queue's codec. */
  readonly payload: T
  /** The headers given to `push`; {} if none. */
  readonly headers: Readonly<Record<string, string>>
  /**
   * The number of this delivery, 1 for the first. A delivery that never reached a live process, because its connection
   * was lost, does not count.
   */
  readonly attempt: number
  /**
   * When it became due: ms since the epoch, server time. For a later attempt: when the last visibility, or the backoff,
   * ended.
   */
  readonly dueAt: number
  /** Aborted with a `StaleDeliveryError` when the visibility ends before the delivery is settled. */
  readonly signal: AbortSignal
  /** Success: removes the message. */
  ack(): Promise<void>
  /**
   * Failure: delivers the message again after `delay` (0: at once; more than 400 years counts as 400), by default the
   * queue's backoff. After the last attempt it becomes a dead letter instead, with `error` as its reason.
   */
  nack(options?: { delay?: Duration | 0; error?: unknown }): Promise<void>
  /**
   * Permanent failure: makes it a dead letter at once. The reason is a text, or an error, whose text is taken; cut at
   * 1000 characters; default 'rejected'.
   */
  reject(reason?: unknown): Promise<void>
  /** Sets the visibility to `visibility` from now, more than 0; default: the visibility of this delivery. */
  extend(visibility?: Duration): Promise<void>
}

/** The parts of a queue that its deliveries use. */
export interface DeliveryContext {
  readonly subject: string
  readonly fetcher: Fetcher
  readonly backoffMs: BackoffMs
  readonly watch: QueueWatch
}

/** The outcome reported for a settlement; 'extend' and 'return' are not reported. */
const OUTCOMES: Partial<Record<SettlementKind, DeliveryOutcome>> = { ack: 'ack', nack: 'nack', reject: 'dead' }

export class OpenDelivery<T> implements Delivery<T> {
  readonly id: string
  readonly attempt: number
  readonly headers: Readonly<Record<string, string>>
  readonly dueAt: number
  readonly #context: DeliveryContext
  #receipt: string
  /** True until `begin`, if the attempt does not count before. */
  #notBegun: boolean
  /** By the queue's clock. */
  readonly #queueDueAt: number
  readonly #record: QueueRecord
  readonly #visibilityMs: number
  /** How late it was taken, by the server's clock, ms. */
  readonly #latenessMs: number
  readonly #takenAt: number
  #until: number
  #untilHere: number
  #state: 'open' | 'settling' | 'ended' = 'open'
  #abort: AbortController | undefined
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(
    context: DeliveryContext,
    taken: Taken,
    record: QueueRecord,
    visibilityMs: number,
    readonly payload: T,
  ) {
    const { id, attempts } = parseReceipt(taken.receipt)
    this.id = id
    this.attempt = taken.notBegun ? attempts + 1 : attempts
    this.headers = record.headers
    this.dueAt = taken.dueAt - taken.aheadMs
    this.#context = context
    this.#receipt = taken.receipt
    this.#notBegun = taken.notBegun
    this.#queueDueAt = taken.dueAt
    this.#record = record
    this.#visibilityMs = visibilityMs
    this.#latenessMs = taken.until - visibilityMs - taken.dueAt
    this.#takenAt = performance.now()
    this.#until = taken.until
    this.#untilHere = taken.untilHere
  }

  /** True until it is settled or lost. */
  get open(): boolean {
    return this.#state === 'open'
  }

  /** How long the delivery certainly still belongs to this process, ms. */
  get leftMs(): number {
    return this.#untilHere - performance.now()
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      if (this.#state === 'ended') this.#abort.abort(this.#stale())
      else this.#watch()
    }
    return this.#abort.signal
  }

  /** The caller has received the delivery. */
  handedOver(): void {
    this.#context.watch.delivered(this.#latenessMs + Math.floor(performance.now() - this.#takenAt), this.attempt)
  }

  ack(): Promise<void> {
    return this.#settle('ack', this.#record.hasTtl ? '1' : '0')
  }

  async nack(options: { delay?: Duration | 0; error?: unknown } = {}): Promise<void> {
    const { subject, fetcher, backoffMs } = this.#context
    checkOptions(`${subject}: nack`, options, { delay: true, error: true }, "{ delay: '5s' }")
    const { delay, error } = options
    const given = delay === undefined ? undefined : parseDurationOrZero(delay, `${subject}: nack: delay`)
    if (this.attempt >= this.#record.maxAttempts)
      return this.#settle('reject', reasonOf(error === undefined ? 'nacked' : textOf(error)))
    const delayMs = Math.min(LONGEST_DELAY_MS, given ?? backoffMs(this.attempt, error))
    await this.#settle('nack', String(delayMs))
    fetcher.expect(delayMs)
  }

  reject(reason?: unknown): Promise<void> {
    return this.#settle('reject', reasonOf(textOf(reason ?? 'rejected')))
  }

  async extend(visibility?: Duration): Promise<void> {
    const { subject } = this.#context
    const ms = visibility === undefined ? this.#visibilityMs : parseOption(visibility, `${subject}: extend: visibility`)
    if (this.#state !== 'open') throw this.#stale()
    const askedAt = performance.now()
    const until = await this.#ask('extend', String(ms))
    if (until === 0) {
      this.#lose()
      throw this.#stale()
    }
    this.#until = until
    this.#untilHere = askedAt + ms
    if (this.#abort !== undefined && this.#state === 'open') this.#watch()
  }

  /** Puts it back as if it had never been delivered: due when it was, and not counted as an attempt. */
  async giveBack(): Promise<void> {
    await this.#settle(this.#notBegun ? 'return_not_begun' : 'return', String(this.#queueDueAt))
  }

  /**
   * Its handler may begin: from now on it counts as an attempt. False if the queue is paused, or if the delivery is
   * lost. Rejects with `StoreError`.
   */
  async begin(): Promise<boolean> {
    if (!this.#notBegun) return this.open
    if (!this.open) return false
    this.#state = 'settling'
    const askedAt = performance.now()
    let until: number
    try {
      until = await this.#ask('begin', String(this.#visibilityMs))
    } finally {
      if (this.#state === 'settling') this.#state = 'open'
    }
    if (until === 0) this.#lose()
    if (until <= 0) return false
    this.#receipt = begunReceipt(this.#receipt)
    this.#notBegun = false
    this.#until = until
    this.#untilHere = askedAt + this.#visibilityMs
    return this.open
  }

  async #settle(what: SettlementKind, detail: string): Promise<void> {
    if (this.#state !== 'open') throw this.#stale()
    this.#state = 'settling'
    let settled: number
    try {
      settled = await this.#ask(what, detail)
    } catch (error) {
      if (this.#state === 'settling') this.#state = 'open'
      throw error
    }
    if (settled === 0) {
      this.#lose()
      throw this.#stale()
    }
    // While the server settled it, a timer may have marked it as lost.
    if ((this.#state as string) !== 'ended') this.#reportOutcome(OUTCOMES[what])
    this.#state = 'ended'
    clearTimeout(this.#timer)
  }

  #reportOutcome(outcome: DeliveryOutcome | undefined): void {
    if (outcome !== undefined) this.#context.watch.settled(outcome, performance.now() - this.#takenAt)
  }

  #ask(what: SettlementKind, detail: string): Promise<number> {
    return this.#context.fetcher.settle({ what, receipt: this.#receipt, until: this.#until, detail })
  }

  #watch(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(
      () => {
        if (this.leftMs > 0) this.#watch()
        else this.#lose()
      },
      Math.min(LONGEST_TIMER_MS, Math.max(1, Math.ceil(this.leftMs))),
    )
    this.#timer.unref?.()
  }

  #lose(): void {
    if (this.#state !== 'ended') this.#reportOutcome('stale')
    this.#state = 'ended'
    clearTimeout(this.#timer)
    this.#abort?.abort(this.#stale())
  }

  #stale(): StaleDeliveryError {
    return new StaleDeliveryError(
      `${this.#context.subject}: delivery ${this.attempt} of message ${JSON.stringify(this.id)} is no longer ours: ` +
        'it was settled, or not settled within its visibility',
    )
  }
}
