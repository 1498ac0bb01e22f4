import { Alarm, RetryDelay } from '../../limiter/core/alarms.js'
import { asyncDispose } from '../../limiter/core/async-dispose.js'
import { LONGEST_TIMER_MS, quietTimer } from '../../limiter/core/clock.js'
import type { Duration } from '../../limiter/core/duration.js'
import { SpillwayError, StaleDeliveryError, StoreError } from '../../limiter/core/errors.js'
import type { ConsumeSettings, Limiter } from './consume-options.js'
import type { ConsumerTrouble } from './consumer-trouble.js'
import type { Delivery, OpenDelivery } from './delivery.js'
import type { Taken } from './fetch.js'
import type { Fetcher } from './fetcher.js'
import type { MessageReceiver } from './receivers.js'
import { textOf } from './record.js'

/** Runs a handler for each delivery of a queue. It keeps the process alive until it is closed. */
export interface Consumer extends AsyncDisposable {
  /** The number of running handlers. */
  readonly running: number
  /**
   * Takes no more messages, puts back messages whose handler has not begun, and waits for running handlers, at most
   * `grace` (default '30s'; 0: not at all). A message that is not settled by then is delivered again when its
   * visibility ends. Never rejects because of Redis; an invalid grace throws `PolicyError`.
   */
  close(options?: { grace?: Duration | 0 }): Promise<void>
}

interface ConsumerSettings<T> extends ConsumeSettings {
  readonly handler: (delivery: Delivery<T>) => Promise<void>
  readonly open: (taken: Taken) => OpenDelivery<T> | undefined
  readonly graceMs: (grace: Duration | 0 | undefined) => number
  readonly trouble: ConsumerTrouble
}

export class QueueConsumer<T> implements Consumer, MessageReceiver {
  readonly visibilityMs: number
  readonly stays = true
  readonly beginsLater: boolean
  readonly #fetcher: Fetcher
  readonly #settings: ConsumerSettings<T>
  readonly #held = new Set<OpenDelivery<T>>()
  /** Running handlers, and settlements without an answer so far. */
  readonly #endings = new Set<Promise<void>>()
  readonly #closing = new AbortController()
  #running = 0
  /**
   * A delivery waits for a permit: no other is taken meanwhile, so that it waits where others, and a pause, can still
   * reach it.
   */
  #waitsForPermit = false
  /** After a failure of the limiter no message is taken until this timer rings. */
  #limiterRest: ReturnType<typeof setTimeout> | undefined
  readonly #limiterDelay = new RetryDelay()
  #extending: ReturnType<typeof setInterval> | undefined
  #closed: Promise<void> | undefined
  /** Its closing has ended: what is not settled by now is delivered again. */
  #over = false
  readonly closed: Promise<void>
  #hasClosed = () => {}

  constructor(fetcher: Fetcher, settings: ConsumerSettings<T>) {
    this.#fetcher = fetcher
    this.#settings = settings
    this.visibilityMs = settings.visibilityMs
    this.beginsLater = settings.limiter !== undefined
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
    if (this.#closed || this.#limiterRest !== undefined) return 0
    const room = concurrency - this.#held.size
    return limiter === undefined ? room : Math.min(this.#waitsForPermit ? 0 : 1, room)
  }

  take(taken: readonly Taken[]): void {
    this.#settings.trouble.works('fetch')
    for (const message of taken) {
      const delivery = this.#settings.open(message)
      if (delivery === undefined) continue
      this.#held.add(delivery)
      this.#track(this.#begin(delivery))
    }
    if (this.#held.size > 0) this.#startExtending()
  }

  /** The fetcher tries again by itself. */
  failed(error: unknown, tookMs: number): void {
    this.#settings.trouble.failed('fetch', error, tookMs)
  }

  wakeupFailed(error: unknown, silentMs: number): void {
    this.#settings.trouble.failed('wake-up', error, silentMs)
  }

  wakeupWorks(): void {
    this.#settings.trouble.works('wake-up')
  }

  close({ grace }: { grace?: Duration | 0 } = {}): Promise<void> {
    const graceMs = this.#settings.graceMs(grace)
    this.#closed ??= this.#close(graceMs)
    return this.#closed
  }

  [asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(graceMs: number): Promise<void> {
    this.#fetcher.leave(this)
    this.#closing.abort()
    clearTimeout(this.#limiterRest)
    if (this.#settings.limiter !== undefined) this.#settings.trouble.forget(this.#settings.limiter)
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
    this.#over = true
    alarm.clear()
    this.#stopExtending()
  }

  #track(work: Promise<void>): void {
    const ending = work.finally(() => {
      this.#endings.delete(ending)
    })
    this.#endings.add(ending)
  }

  async #begin(delivery: OpenDelivery<T>): Promise<void> {
    const { limiter, handler } = this.#settings
    const begins = limiter === undefined || (await this.#permitted(limiter, delivery))
    // A process that stood still may have lost it before it was delivered.
    const isOver = this.#closed || !begins || delivery.leftMs <= 0
    if (isOver) return this.#end(delivery, () => delivery.giveBack())
    this.#running++
    delivery.handedOver()
    // Its handler begins late, because the process stood still: the visibility counts from now on.
    this.#extendIfDue(delivery)
    try {
      await handler(delivery)
    } catch (error) {
      this.#running--
      return this.#end(delivery, () => delivery.nack({ error }))
    }
    this.#running--
    return this.#end(delivery, () => delivery.ack())
  }

  /**
   * Waits for a permit, then asks Redis whether the handler may begin: not if the queue was paused, or the delivery
   * lost, meanwhile.
   */
  async #permitted(limiter: Limiter, delivery: OpenDelivery<T>): Promise<boolean> {
    this.#waitsForPermit = true
    try {
      await limiter.acquire(1, { signal: this.#closing.signal })
    } catch (error) {
      if (!this.#closed) this.#limiterFailed(limiter, error)
      return false
    } finally {
      this.#waitsForPermit = false
    }
    this.#settings.trouble.works(limiter)
    this.#limiterDelay.reset()
    let begins = false
    const begun = this.#insist(delivery, async () => {
      begins = await delivery.begin()
    })
    // The same call fetches the next message.
    this.#fetcher.offer()
    await begun
    return begins
  }

  #limiterFailed(limiter: Limiter, reason: unknown): void {
    const error =
      reason instanceof SpillwayError
        ? reason
        : new StoreError(`the limiter rejected: ${textOf(reason)}`, { cause: reason })
    // It has tried for long enough before it rejects.
    this.#settings.trouble.failed(limiter, error, Number.POSITIVE_INFINITY)
    clearTimeout(this.#limiterRest)
    this.#limiterRest = setTimeout(() => {
      this.#limiterRest = undefined
      this.#fetcher.offer()
    }, this.#limiterDelay.next())
    this.#limiterRest.unref?.()
  }

  /** Settles a delivery, unless the handler did, and makes room for the next in the same turn. */
  async #end(delivery: OpenDelivery<T>, settle: () => Promise<void>): Promise<void> {
    this.#held.delete(delivery)
    if (this.#held.size === 0) this.#stopExtending()
    const settled = delivery.open ? this.#insist(delivery, settle) : undefined
    if (!this.#closed) this.#fetcher.offer()
    await settled
  }

  /** Repeats until it succeeds, the delivery no longer belongs to this process, or the consumer has closed. */
  async #insist(delivery: OpenDelivery<T>, settle: () => Promise<void>): Promise<void> {
    for (const delay = new RetryDelay(); ; ) {
      try {
        await settle()
        this.#settings.trouble.works('settlement')
        return
      } catch (error) {
        if (error instanceof StaleDeliveryError) return
        this.#settings.trouble.failed('settlement', error)
        const ms = delay.next()
        if (delivery.leftMs <= ms || this.#over) return
        // Closing waits for it, but the process need not.
        await new Promise<void>(resolve => quietTimer(resolve, ms))
        if (this.#over) return
      }
    }
  }

  #startExtending(): void {
    if (!this.#settings.autoExtend || this.#extending !== undefined) return
    this.#extending = setInterval(() => {
      for (const delivery of this.#held) this.#extendIfDue(delivery)
    }, this.#extendEveryMs)
    this.#extending.unref?.()
  }

  /** A failed extension is tried again at least twice before the visibility ends. */
  get #extendEveryMs(): number {
    return Math.max(1, Math.min(LONGEST_TIMER_MS, Math.floor(this.visibilityMs / 3)))
  }

  #extendIfDue(delivery: OpenDelivery<T>): void {
    const isDue = delivery.leftMs < this.visibilityMs - this.#extendEveryMs / 2
    if (isDue && delivery.open && this.#settings.autoExtend) delivery.extend().catch(() => {})
  }

  #stopExtending(): void {
    clearInterval(this.#extending)
    this.#extending = undefined
  }
}
