import type { Duration } from '../core/duration.js'
import { StaleDeliveryError } from '../core/errors.js'
import { Alarm } from '../waiting/alarm.js'
import type { ConsumeSettings } from './consume-options.js'
import type { Delivery, OpenDelivery } from './delivery.js'
import type { Fetcher } from './fetcher.js'
import { HandlerTime } from './handler-time.js'
import type { MessageReceiver } from './receivers.js'
import type { Taken } from './turn.js'

/** Runs a handler for each delivery of a queue. It keeps the process alive until it is closed. */
export interface Consumer extends AsyncDisposable {
  /** How many handlers run now. */
  readonly running: number
  /**
   * Takes nothing more, puts back what was taken and not begun, and waits for the handlers that run, for `grace` at most (default
   * '30s'; 0: not at all). What is not settled then comes again when its visibility ends.
   */
  close(options?: { grace?: Duration | 0 }): Promise<void>
}

export interface ConsumerSettings<T> extends ConsumeSettings {
  readonly handler: (delivery: Delivery<T>) => Promise<void>
  readonly open: (taken: Taken) => OpenDelivery<T> | undefined
  readonly graceMs: (grace: Duration | 0 | undefined) => number
}

/** A limiter that fails is asked again after so long; its delivery waits in the queue meanwhile. */
const LIMITER_RETRY_MS = 1000
/** What was taken ahead and could not be begun for so long is put back, for others. */
const AHEAD_AT_MOST_MS = 5
const FIRST_RETRY_MS = 50
const LONGEST_RETRY_MS = 1000

export class QueueConsumer<T> implements Consumer, MessageReceiver {
  readonly visibilityMs: number
  readonly stays = true
  readonly #fetcher: Fetcher
  readonly #settings: ConsumerSettings<T>
  readonly #held = new Set<OpenDelivery<T>>()
  /** Of these, what was taken ahead of the handlers. */
  #ahead: Array<OpenDelivery<T>> = []
  readonly #pace = new HandlerTime()
  #aheadTimer: ReturnType<typeof setTimeout> | undefined
  /** What is still on its way to Redis. */
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
    return this.#closed ? 0 : concurrency + (limiter === undefined ? this.#pace.ahead : 0) - this.#held.size
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

  /** The fetcher asks again by itself. */
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
    // What is settled shall be told to Redis, so that even no grace at all is a moment.
    await undefined
    const alarm = new Alarm(() => this.#hasClosed())
    alarm.set(performance.now() + graceMs)
    const finish = async () => {
      // What is being fetched now is given back when it comes, and waited for as well.
      await this.#fetcher.quiet()
      await this.#fetcher.handOver()
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
      // It may have been lost while it waited, with the connection to Redis: somebody else has it by now.
      if (!delivery.open || delivery.leftMs <= 0) return this.#end(delivery, async () => {})
    }
    if (this.#closed) return this.#end(delivery, () => delivery.giveBack())
    this.#running++
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
    this.#pace.took(performance.now() - begunAt)
  }

  #watchAhead(): void {
    clearTimeout(this.#aheadTimer)
    this.#aheadTimer = setTimeout(() => {
      // A turn of the event loop may have lasted that long without any fault of the handlers: they go first.
      setImmediate(() => {
        if (this.#ahead.length === 0) return
        this.#pace.disappoint()
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

  /** Settles a delivery, unless the handler has done so, and makes room for the next, in one and the same turn. */
  async #end(delivery: OpenDelivery<T>, settle: () => Promise<void>): Promise<void> {
    this.#held.delete(delivery)
    if (this.#held.size === 0) this.#stopExtending()
    const settled = delivery.open ? this.#insist(delivery, settle) : undefined
    const next = this.#held.size - this.#ahead.length < this.#settings.concurrency ? this.#ahead.shift() : undefined
    if (next !== undefined) this.#serve(next)
    if (!this.#closed) this.#fetcher.offer()
    await settled
  }

  /** What has been done is told as long as Redis still thinks the delivery ours. */
  async #insist(delivery: OpenDelivery<T>, settle: () => Promise<void>): Promise<void> {
    for (let ms = FIRST_RETRY_MS; ; ms = Math.min(LONGEST_RETRY_MS, ms * 2)) {
      try {
        return await settle()
      } catch (error) {
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
        // What fails now is tried again, two times at least before it is too late.
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
