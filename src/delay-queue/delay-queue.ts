import { type Duration, parseDurationOrZero } from '../core/duration.js'
import { PolicyError, SpillwayError, shown } from '../core/errors.js'
import { checkOptions } from '../core/option-names.js'
import type { RedisClient } from '../redis/client.js'
import { Commands } from '../redis/commands.js'
import { keyRoot } from '../redis/key-root.js'
import { portOf } from '../redis/port-of.js'
import { queueCancel, queueClear, queuePause, queueReschedule, queueStats } from '../redis/scripts.js'
import { LONGEST_DELAY_MS } from './backoff.js'
import { type ConsumeOptions, parseConsumeOptions } from './consume-options.js'
import { type Consumer, QueueConsumer } from './consumer.js'
import { type DeadLetter, DeadLetters } from './dead-letters.js'
import { type Delivery, type DeliveryContext, OpenDelivery } from './delivery.js'
import type { Fetcher } from './fetcher.js'
import { holdFetcher } from './fetcher-of.js'
import { queueKeys } from './keys.js'
import {
  type DelayQueueOptions,
  type DelayQueueSettings,
  type PushOptions,
  parseDelayQueueOptions,
  pushRequestOf,
} from './options.js'
import { PushBatcher } from './push-batcher.js'
import { QueueSchedules } from './queue-schedules.js'
import { textOf } from './reason.js'
import { parseReceiveOptions, type ReceiveOptions } from './receive-options.js'
import { Receiving } from './receiving.js'
import { NO_RECORD, parseRecord } from './record.js'
import { SCHEDULES, type ScheduleStore } from './schedule-store.js'
import type { Taken } from './turn.js'

export interface QueueStats {
  /** Due and not delivered. */
  readonly ready: number
  readonly delayed: number
  readonly unacked: number
  readonly dead: number
  /** When the next delayed message is due: ms since the epoch, server time. */
  readonly nextDueAt: number | null
}

/**
 * A durable queue of work for later: each message is stored with the moment it is due, by the server's clock, then delivered to one
 * consumer for its visibility, and is gone once acknowledged; else it is delivered again. At least once, then: what a handler does
 * should bear to be done twice. Those that are due come by priority, then in order of their moments, then of their push.
 *
 * `visibility`, `backoff` and `maxAttempts` are this object's, not the queue's: give all processes the same. Everything that asks
 * Redis rejects with `StoreError` when it fails.
 */
export class DelayQueue<T = unknown> {
  readonly #subject: string
  readonly #settings: DelayQueueSettings<T>
  readonly #commands: Commands
  readonly #keys: readonly string[]
  readonly #pushes: PushBatcher
  readonly #dead: DeadLetters<T>
  readonly #fetcher: Fetcher
  readonly #release: () => Promise<void>
  readonly #context: DeliveryContext
  readonly #consumers = new Set<QueueConsumer<T>>()
  readonly #receiving = new Set<Receiving<OpenDelivery<T>>>()
  #closed: Promise<void> | undefined
  /** @internal Where `defer` keeps the schedules of its messages. */
  readonly [SCHEDULES]: ScheduleStore

  /** Checks its options: `PolicyError`. Connects nothing until it is used. */
  constructor(client: RedisClient, name: string, options: DelayQueueOptions<T> = {}) {
    const base = keyRoot('DelayQueue', 'queue', name, options?.prefix)
    this.#subject = `DelayQueue ${shown(name)}`
    this.#settings = parseDelayQueueOptions(options, this.#subject)
    const { clock, codec, maxSize, backoffMs } = this.#settings
    this.#commands = new Commands(client, this.#subject, base, { forgets: true })
    this.#keys = queueKeys(base)
    this.#pushes = new PushBatcher(this.#commands, base, maxSize, clock, () => this.#fetcher.woke())
    this.#dead = new DeadLetters(this.#commands, this.#keys, codec, clock, () => this.#fetcher.woke())
    this[SCHEDULES] = new QueueSchedules(portOf(client, this.#subject), this.#commands, base, clock)
    const { fetcher, release } = holdFetcher(client, this.#commands, base, clock)
    this.#fetcher = fetcher
    this.#release = release
    this.#context = { subject: this.#subject, fetcher, backoffMs }
  }

  /** Stores a message. Gives its id, or null if a message of that id is delayed, ready or unacked already, or the queue is full. */
  async push(payload: T, options: PushOptions = {}): Promise<string | null> {
    this.#checkOpen()
    const request = pushRequestOf(payload, options, this.#settings, `${this.#subject}: push`)
    return (await this.#pushes.push(request)) ? request.id : null
  }

  /** As `push` for each, in this order, with as few calls as possible. Not all or none: each is accepted or not on its own. */
  async pushMany(items: ReadonlyArray<{ payload: T; options?: PushOptions }>): Promise<Array<string | null>> {
    this.#checkOpen()
    const user = `${this.#subject}: pushMany`
    const requests = items.map(({ payload, options = {} }) => pushRequestOf(payload, options, this.#settings, user))
    const accepted = await Promise.all(requests.map(request => this.#pushes.push(request)))
    return requests.map(({ id }, i) => (accepted[i] ? id : null))
  }

  /** Takes up to `count` messages that are due, and waits up to `wait` for the first. An empty list if there is none. */
  async receive(options: ReceiveOptions = {}): Promise<Array<Delivery<T>>> {
    this.#checkOpen()
    const user = `${this.#subject}: receive`
    const { count, patience, visibilityMs } = parseReceiveOptions(options, this.#settings.visibilityMs, user)
    const open = (taken: Taken) => this.#open(taken, visibilityMs)
    const giveBack = (delivery: OpenDelivery<T>) => void delivery.giveBack().catch(() => {})
    const receiving = new Receiving(this.#fetcher, visibilityMs, count, patience, open, giveBack)
    this.#receiving.add(receiving)
    try {
      return await receiving.deliveries()
    } finally {
      this.#receiving.delete(receiving)
    }
  }

  /**
   * Calls `handler` for each message from when it is due, until the consumer is closed. What resolves is acknowledged, unless the
   * handler has settled it; what throws is nacked, with the backoff. Of an outage it only sees that nothing comes.
   */
  consume(handler: (delivery: Delivery<T>) => Promise<void>, options: ConsumeOptions = {}): Consumer {
    this.#checkOpen()
    const user = `${this.#subject}: consume`
    const settings = parseConsumeOptions(handler, options, this.#settings.visibilityMs, user)
    const consumer = new QueueConsumer<T>(this.#fetcher, {
      ...settings,
      handler,
      open: taken => this.#open(taken, settings.visibilityMs),
      graceMs: (grace = '30s') => parseDurationOrZero(grace, `${user}: close: grace`),
    })
    this.#consumers.add(consumer)
    const close = () => void consumer.close()
    const { signal } = settings
    if (signal?.aborted) close()
    else signal?.addEventListener('abort', close, { once: true })
    consumer.closed.then(() => {
      this.#consumers.delete(consumer)
      signal?.removeEventListener('abort', close)
    })
    return consumer
  }

  /** Removes a message that waits to be delivered, for the first time or again. False if there is none of that id. */
  async cancel(id: string): Promise<boolean> {
    this.#checkOpen()
    return (await this.#commands.once(queueCancel, this.#keys, [this.#clock(), id])) === 1
  }

  /** Makes a delayed message due in so long from now. False if none of that id is delayed: not there, due already, or delivered. */
  async reschedule(id: string, delay: Duration | 0): Promise<boolean> {
    this.#checkOpen()
    const delayMs = Math.min(LONGEST_DELAY_MS, parseDurationOrZero(delay, `${this.#subject}: reschedule: delay`))
    const reply = await this.#commands.once(queueReschedule, this.#keys, [this.#clock(), id, String(delayMs)])
    const [changed, woken] = reply as number[]
    if (woken === 1) this.#fetcher.woke()
    return changed === 1
  }

  async stats(): Promise<QueueStats> {
    this.#checkOpen()
    for (;;) {
      const reply = await this.#commands.run(queueStats, this.#keys, [this.#clock()])
      const [ready, delayed, unacked, dead, nextDueAt, unfinished] = reply as number[]
      if (unfinished === 0) return { ready, delayed, unacked, dead, nextDueAt: nextDueAt < 0 ? null : nextDueAt }
    }
  }

  /** Holds all deliveries, in all processes, until `resume`. What is delivered already may be settled. */
  async pause(): Promise<void> {
    this.#checkOpen()
    await this.#commands.once(queuePause, this.#keys, ['1'])
  }

  async resume(): Promise<void> {
    this.#checkOpen()
    const reply = await this.#commands.once(queuePause, this.#keys, ['0'])
    if ((reply as number[])[0] === 1) this.#fetcher.woke()
  }

  /** The dead letters, oldest first; `limit` at most, default 100. */
  async dead(options: { limit?: number } = {}): Promise<Array<DeadLetter<T>>> {
    this.#checkOpen()
    checkOptions(`${this.#subject}: dead`, options, { limit: true }, '{ limit: 100 }')
    const { limit = 100 } = options
    if (limit === Number.POSITIVE_INFINITY || (Number.isSafeInteger(limit) && limit >= 0)) return this.#dead.list(limit)
    throw new PolicyError(`${this.#subject}: dead: limit ${shown(limit)}: expected an integer ≥ 0, like 100`)
  }

  /**
   * Brings dead letters back, those of these ids or all: ready at once, attempts from 1, without their ttl. One whose id is queued
   * again stays. Gives how many came back.
   */
  async redrive(options: { ids?: readonly string[] } = {}): Promise<number> {
    this.#checkOpen()
    checkOptions(`${this.#subject}: redrive`, options, { ids: true }, '{ ids: ["order-17"] }')
    return this.#dead.redrive(options.ids)
  }

  /** Removes everything, dead letters too; open deliveries become stale. A pause goes on. */
  async clear(): Promise<void> {
    this.#checkOpen()
    await this.#commands.once(queueClear, this.#keys, [this.#clock()])
  }

  /** Closes its consumers, with their grace of 30 s; a `receive` that waits gives what it has. The client stays open. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    for (const receiving of this.#receiving) receiving.end()
    await Promise.all([...this.#consumers].map(consumer => consumer.close()))
    await Promise.all([this.#release(), this.#commands.close()])
  }

  /** A delivery; undefined if the message cannot be read, which makes it a dead letter. */
  #open(taken: Taken, visibilityMs: number): OpenDelivery<T> | undefined {
    let what = 'record cannot be read'
    try {
      const record = parseRecord(taken.record)
      what = 'payload cannot be decoded'
      return new OpenDelivery(this.#context, taken, record, visibilityMs, this.#settings.codec.decode(record.payload))
    } catch (error) {
      const unread = new OpenDelivery<undefined>(this.#context, taken, NO_RECORD, visibilityMs, undefined)
      unread.reject(`${what}: ${textOf(error)}`).catch(() => {})
      return undefined
    }
  }

  #clock(): string {
    const { clock } = this.#settings
    return clock === undefined ? '' : String(Math.floor(clock.now()))
  }

  #checkOpen(): void {
    if (this.#closed) throw new SpillwayError(`${this.#subject}: closed: expected no call after close()`)
  }
}
