import { Alarm, RetryDelay } from '../../limiter/core/alarms.js'
import { afterIo, LONGEST_TIMER_MS, quietTimer } from '../../limiter/core/clock.js'
import type { Duration } from '../../limiter/core/duration.js'
import { StaleDeliveryError, StoreError, shown } from '../../limiter/core/errors.js'
import type { ConsumeSettings, Limiter } from './consume-options.js'
import type { Delivery, OpenDelivery } from './delivery.js'
import type { FaultReport, QueueHealth } from './fault-report.js'
import type { Taken } from './fetch.js'
import type { Fetcher } from './fetcher.js'
import type { MessageReceiver } from './receivers.js'

/** A message taken in advance should begin within this time, by the recent duration of the handler. */
const AHEAD_MS = 2
/** Most messages taken in advance. */
const MOST_AHEAD = 8
/** Weight of the latest duration in the mean. */
const WEIGHT = 0.2

/**
 * Measures how long a handler takes. A fast handler gets some messages in advance, so that one call to Redis brings
 * several; a slow one gets none, because another process may be idle.
 */
export class HandlerTime {
  #meanMs = Number.POSITIVE_INFINITY

  /** One handler has ended after `ms`. */
  took(ms: number): void {
    this.#meanMs = this.#meanMs === Number.POSITIVE_INFINITY ? ms : this.#meanMs + (ms - this.#meanMs) * WEIGHT
  }

  /** The handler was slower than expected: no messages in advance until it has been fast for a while. */
  disappoint(): void {
    this.#meanMs = Math.max(this.#meanMs, AHEAD_MS * 10)
  }

  get ahead(): number {
    return Math.min(MOST_AHEAD, Math.floor(AHEAD_MS / this.#meanMs))
  }
}

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
  readonly health: QueueHealth
}

/** Messages taken in advance go back to the queue, for other processes, if no handler has begun after this time. */
const AHEAD_AT_MOST_MS = 5

export class QueueConsumer<T> implements Consumer, MessageReceiver {
  readonly visibilityMs: number
  readonly stays = true
  readonly beginsLater: boolean
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
  /**
   * A delivery waits for a permit: no other is taken meanwhile, so that it waits where others, and a pause, can still
   * reach it.
   */
  #waitsForPermit = false
  /** After a failure of the limiter no message is taken until this timer rings. */
  #limiterRest: ReturnType<typeof setTimeout> | undefined
  readonly #limiterDelay = new RetryDelay()
  readonly #limiterReport: FaultReport | undefined
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
    this.#limiterReport = settings.limiter && settings.health.limiter()
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
    if (limiter === undefined) return concurrency + this.#handlerTime.ahead - this.#held.size
    return Math.min(this.#waitsForPermit ? 0 : 1, concurrency - this.#held.size)
  }

  take(taken: readonly Taken[]): void {
    this.#settings.health.fetched()
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

  /** The fetcher tries again by itself. */
  failed(error: unknown, tookMs: number): void {
    this.#settings.health.fetchFailed(error, tookMs)
  }

  wakeupFailed(error: unknown, silentMs: number): void {
    this.#settings.health.wakeupFailed(error, silentMs)
  }

  wakeupWorks(): void {
    this.#settings.health.wakeupWorks()
  }

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
    clearTimeout(this.#limiterRest)
    this.#limiterReport?.close()
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
    this.#over = true
    alarm.clear()
    this.#stopExtending()
  }

  #serve(delivery: OpenDelivery<T>): void {
    this.#track(this.#begin(delivery))
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

  /**
   * Waits for a permit, then asks Redis whether the handler may begin: not if the queue was paused, or the delivery
   * lost, meanwhile.
   */
  async #permitted(limiter: Limiter, delivery: OpenDelivery<T>): Promise<boolean> {
    this.#waitsForPermit = true
    try {
      await limiter.acquire(1, { signal: this.#closing.signal })
    } catch (error) {
      if (!this.#closed) this.#limiterFailed(error)
      return false
    } finally {
      this.#waitsForPermit = false
    }
    this.#limiterReport?.succeeded()
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

  #limiterFailed(error: unknown): void {
    this.#limiterReport?.failed(
      error instanceof Error ? error : new StoreError(`the limiter rejected with ${shown(error)}`),
    )
    clearTimeout(this.#limiterRest)
    this.#limiterRest = setTimeout(() => {
      this.#limiterRest = undefined
      this.#fetcher.offer()
    }, this.#limiterDelay.next())
    this.#limiterRest.unref?.()
  }

  #ran(begunAt: number): void {
    this.#running--
    this.#handlerTime.took(performance.now() - begunAt)
  }

  #watchAhead(): void {
    clearTimeout(this.#aheadTimer)
    this.#aheadTimer = setTimeout(() => {
      // The delay may come from a busy event loop. In that case the handlers go first.
      afterIo(() => {
        if (this.#ahead.length === 0) return
        this.#handlerTime.disappoint()
        this.#giveAheadBack()
      })
    }, AHEAD_AT_MOST_MS)
    this.#aheadTimer.unref?.()
  }

  #giveAheadBack(): void {
    for (const delivery of this.#ahead.splice(0)) this.#track(this.#end(delivery, () => delivery.giveBack()))
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

  /** Repeats until it succeeds, the delivery no longer belongs to this process, or the consumer has closed. */
  async #insist(delivery: OpenDelivery<T>, settle: () => Promise<void>): Promise<void> {
    for (const delay = new RetryDelay(); ; ) {
      try {
        await settle()
        this.#settings.health.settled()
        return
      } catch (error) {
        if (error instanceof StaleDeliveryError) return
        this.#settings.health.settleFailed(error)
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
    const everyMs = Math.max(1, Math.min(LONGEST_TIMER_MS, Math.floor(this.visibilityMs / 3)))
    this.#extending = setInterval(() => {
      for (const delivery of this.#held) {
        // A failed extension is tried again at least twice before the visibility ends.
        if (delivery.open && delivery.leftMs < this.visibilityMs - everyMs / 2) delivery.extend().catch(() => {})
      }
    }, everyMs)
    this.#extending.unref?.()
  }

  #stopExtending(): void {
    clearInterval(this.#extending)
    this.#extending = undefined
  }
}
