import type { Duration } from '../core/duration.js'
import { StaleDeliveryError } from '../core/errors.js'
import { Alarm } from '../waiting/alarm.js'
import type { ConsumeSettings } from './consume-options.js'
import type { Delivery, OpenDelivery } from './delivery.js'
import type { Fetcher } from './fetcher.js'
import { HandlerTime } from './handler-time.js'
import type { MessageReceiver } from './receivers.js'
import { RetryDelay } from './retry-delay.js'
import type { Taken } from './settle-and-fetch.js'

/** Runs a handler for each delivery of a queue. It keeps the process alive until it is closed. */
export interface Consumer extends AsyncDisposable {
  /** The number of running handlers. */
  readonly running: number
  /**
   * Takes no more messages, puts back messages whose handler has not begun, and waits for running handlers, at most `grace` (default '30s';
   * 0: not at all). A message that is not settled by then is delivered again when its visibility ends. Never rejects because of Redis; an invalid
   * grace throws `PolicyError`.
   */
  close(options?: { grace?: Duration | 0 }): Promise<void>
}

interface ConsumerSettings<T> extends ConsumeSettings {
  readonly handler: (delivery: Delivery<T>) => Promise<void>
  readonly open: (taken: Taken) => OpenDelivery<T> | undefined
  readonly graceMs: (grace: Duration | 0 | undefined) => number
}

/** When the limiter fails, the delivery goes back to the queue for this long. */
const LIMITER_RETRY_MS = 1000
/** Messages taken in advance go back to the queue, for other processes, if no handler has begun after this time. */
const AHEAD_AT_MOST_MS = 5

export class QueueConsumer<T> implements Consumer, MessageReceiver {
  readonly visibilityMs: number
  readonly stays = true
  readonly #fetcher: Fetcher
  readonly #settings: ConsumerSettings<T>
  readonly #held = new Set<OpenDelivery<T>>()
  /** The held deliveries that were taken before a handler was free. */
  #ahead: Array<OpenDelivery<T>> = []
  readonly #handlerTime = new HandlerTime()
  #aheadTimer: ReturnType<typeof setTimeout> | undefined
  /** Running handlers, and settlements without an answer so far. */
  readonly #endings = new Set<Promise<void>>()
  readonly #closing = new AbortController()
  #running = 0
  #extending: ReturnType<typeof setInterval> | undefined
  #closed: Promise<void> | undefined
  readonly closed: Promise<void>
  #hasClosed = () => {}

  constructor(fetcher: Fetcher, settings: ConsumerSettings<T>) {
    this.#fetcher = fetcher
    this.#settings = settings
    this.visibilityMs = settings.visibilityMs
    this.closed = new Promise(resolve => {
      this.#hasClosed = resolve
    })
    fetcher.join(this)
  }

  get running(): number {
    return this.#running
  }

  room(): number {
    const { concurrency, limiter } = this.#settings
    return this.#closed ? 0 : concurrency + (limiter === undefined ? this.#handlerTime.ahead : 0) - this.#held.size
  }

  take(taken: readonly Taken[]): void {
    for (const message of taken) {
      const delivery = this.#settings.open(message)
      if (delivery === undefined) continue
      this.#held.add(delivery)
      if (this.#held.size - this.#ahead.length > this.#settings.concurrency) this.#ahead.push(delivery)
      else this.#serve(delivery)
    }
    if (this.#ahead.length > 0) this.#watchAhead()
    if (this.#held.size > 0) this.#startExtending()
  }

  /** Does nothing: the fetcher tries again by itself. */
  failed(): void {}

  close({ grace }: { grace?: Duration | 0 } = {}): Promise<void> {
    const graceMs = this.#settings.graceMs(grace)
    this.#closed ??= this.#close(graceMs)
    return this.#closed
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(graceMs: number): Promise<void> {
    this.#fetcher.leave(this)
    this.#closing.abort()
    this.#giveAheadBack()
    // Settlements of this tick are sent even if the grace is 0.
    await undefined
    const alarm = new Alarm(() => this.#hasClosed())
    alarm.set(performance.now() + graceMs)
    const finish = async () => {
      // Messages of a fetch in flight are put back when they arrive.
      await this.#fetcher.retire()
      await Promise.allSettled([...this.#endings])
      this.#hasClosed()
    }
    finish()
    await this.closed
    alarm.clear()
    this.#stopExtending()
  }

  #serve(delivery: OpenDelivery<T>): void {
    const ending = this.#begin(delivery).finally(() => {
      this.#endings.delete(ending)
    })
    this.#endings.add(ending)
  }

  async #begin(delivery: OpenDelivery<T>): Promise<void> {
    const { limiter, handler } = this.#settings
    if (limiter !== undefined) {
      try {
        await limiter.acquire(1, { signal: this.#closing.signal })
      } catch {
        return this.#end(delivery, () => delivery.giveBack(this.#closed ? undefined : LIMITER_RETRY_MS))
      }
      // If it could not be extended, its visibility may have ended while it waited, and another process may have it.
      if (!delivery.open || delivery.leftMs <= 0) return this.#end(delivery, async () => {})
    }
    if (this.#closed) return this.#end(delivery, () => delivery.giveBack())
    this.#running++
    delivery.handedOver()
    const begunAt = performance.now()
    try {
      await handler(delivery)
      this.#ran(begunAt)
    } catch (error) {
      this.#ran(begunAt)
      return this.#end(delivery, () => delivery.nack({ error }))
    }
    return this.#end(delivery, () => delivery.ack())
  }

  #ran(begunAt: number): void {
    this.#running--
    this.#handlerTime.took(performance.now() - begunAt)
  }

  #watchAhead(): void {
    clearTimeout(this.#aheadTimer)
    this.#aheadTimer = setTimeout(() => {
      // The delay may come from a busy event loop. In that case the handlers go first.
      setImmediate(() => {
        if (this.#ahead.length === 0) return
        this.#handlerTime.disappoint()
        this.#giveAheadBack()
      })
    }, AHEAD_AT_MOST_MS)
    this.#aheadTimer.unref()
  }

  #giveAheadBack(): void {
    for (const delivery of this.#ahead.splice(0)) {
      const ending = this.#end(delivery, () => delivery.giveBack()).finally(() => {
        this.#endings.delete(ending)
      })
      this.#endings.add(ending)
    }
  }

  /** Settles a delivery, unless the handler did, and makes room for the next in the same turn. */
  async #end(delivery: OpenDelivery<T>, settle: () => Promise<void>): Promise<void> {
    this.#held.delete(delivery)
    if (this.#held.size === 0) this.#stopExtending()
    const settled = delivery.open ? this.#insist(delivery, settle) : undefined
    const next = this.#held.size - this.#ahead.length < this.#settings.concurrency ? this.#ahead.shift() : undefined
    if (next !== undefined) this.#serve(next)
    if (!this.#closed) this.#fetcher.offer()
    await settled
  }

  /** Repeats until it succeeds or the delivery no longer belongs to this process. */
  async #insist(delivery: OpenDelivery<T>, settle: () => Promise<void>): Promise<void> {
    for (const delay = new RetryDelay(); ; ) {
      try {
        return await settle()
      } catch (error) {
        const ms = delay.next()
        if (error instanceof StaleDeliveryError || delivery.leftMs <= ms) return
        await new Promise(resolve => setTimeout(resolve, ms))
      }
    }
  }

  #startExtending(): void {
    if (!this.#settings.autoExtend || this.#extending !== undefined) return
    const everyMs = Math.max(1, Math.min(2 ** 31 - 1, Math.floor(this.visibilityMs / 3)))
    this.#extending = setInterval(() => {
      for (const delivery of this.#held) {
        // A failed extension is tried again at least twice before the visibility ends.
        if (delivery.open && delivery.leftMs < this.visibilityMs - everyMs / 2) delivery.extend().catch(() => {})
      }
    }, everyMs)
    this.#extending.unref()
  }

  #stopExtending(): void {
    clearInterval(this.#extending)
    this.#extending = undefined
  }
}
