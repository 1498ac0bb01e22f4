import { asyncDispose } from '../../limiter/core/async-dispose.js'
import { type Duration, parseDurationOrZero } from '../../limiter/core/duration.js'
import { SpillwayError, shown } from '../../limiter/core/errors.js'
import { checkInteger, checkOptions } from '../../limiter/core/options.js'
import { noteObject } from '../../operating/object-index.js'
import type { RedisClient } from '../../redis/client.js'
import { Commands, clockArgument } from '../../redis/commands.js'
import { keyRoot } from '../../redis/keys.js'
import { queueCancel, queueClear, queueLook, queuePause, queueReschedule } from '../../redis/scripts.js'
import { LONGEST_DELAY_MS } from './backoff.js'
import {
  type ConsumeOptions,
  parseConsumeOptions,
  parseReceiveOptions,
  type ReceiveOptions,
} from './consume-options.js'
import { type Consumer, QueueConsumer } from './consumer.js'
import { ConsumerTrouble } from './consumer-trouble.js'
import { type DeadLetter, DeadLetters } from './dead-letters.js'
import { type Delivery, type DeliveryContext, OpenDelivery } from './delivery.js'
import type { Taken } from './fetch.js'
import { type Fetcher, holdFetcher } from './fetcher.js'
import {
  checkItems,
  type DelayQueueOptions,
  type DelayQueueSettings,
  idsOf,
  type PushOptions,
  parseDelayQueueOptions,
  pushRequestOf,
} from './options.js'
import { PushBatcher } from './push-batcher.js'
import {
  NO_MESSAGES,
  parseQueueInspectOptions,
  parseQueueLook,
  type QueueInspectOptions,
  type QueueLook,
  type QueueStats,
  type QueueView,
  type WantedMessages,
} from './queue-look.js'
import { type QueueLevels, QueueWatch } from './queue-watch.js'
import { Receiving } from './receiving.js'
import { NO_RECORD, parseRecord, queueKeys, textOf } from './record.js'

/**
 * A durable queue of delayed work. A message is stored with the moment when it is due, by the server's clock. It is
 * then delivered to one consumer for its visibility, and removed once it is acknowledged; otherwise it is delivered
 * again. So every message is delivered at least once, and a handler must tolerate running twice. Due messages come by
 * priority, then by due moment, then in the order of `push`.
 *
 * `visibility`, `backoff` and `maxAttempts` belong to this object, not to the queue in Redis: use the same values in
 * all processes. Every method that calls Redis rejects with `StoreError` when Redis fails or does not answer within 5
 * s, and with `SpillwayError` after `close`.
 */
export class DelayQueue<T = unknown> implements AsyncDisposable {
  readonly #subject: string
  readonly #settings: DelayQueueSettings<T>
  readonly #commands: Commands
  readonly #keys: readonly string[]
  readonly #pushes: PushBatcher
  readonly #dead: DeadLetters<T>
  readonly #fetcher: Fetcher
  readonly #release: () => Promise<void>
  readonly #context: DeliveryContext
  readonly #watch: QueueWatch
  readonly #trouble: ConsumerTrouble
  readonly #consumers = new Set<QueueConsumer<T>>()
  readonly #receiving = new Set<Receiving<OpenDelivery<T>>>()
  #closed: Promise<void> | undefined

  /** Opens no connection before the first use. Throws `PolicyError` for an invalid name, client or option. */
  constructor(client: RedisClient, name: string, options: DelayQueueOptions<T> = {}) {
    const base = keyRoot('DelayQueue', 'queue', name, options?.prefix)
    this.#subject = `DelayQueue ${shown(name)}`
    this.#settings = parseDelayQueueOptions(options, this.#subject)
    const { clock, codec, maxSize, deadTtlMs, backoffMs, observer } = this.#settings
    this.#watch = new QueueWatch(observer, name, () => this.#levels())
    this.#trouble = new ConsumerTrouble(this.#subject, name, observer)
    noteObject(client, 'queue', name, options?.prefix, this)
    this.#commands = new Commands(client, this.#subject, base, { forgets: true })
    this.#keys = queueKeys(base)
    this.#pushes = new PushBatcher(this.#commands, base, maxSize, clock)
    this.#dead = new DeadLetters(this.#commands, this.#keys, codec, clock, deadTtlMs)
    const { fetcher, release } = holdFetcher(client, this.#commands, base, clock, deadTtlMs)
    this.#fetcher = fetcher
    this.#release = release
    fetcher.watches.add(this.#watch)
    this.#context = { subject: this.#subject, fetcher, backoffMs, watch: this.#watch }
  }

  /**
   * Stores a message. Resolves to its id, or to null if a message with that id is already delayed, ready or unacked, or
   * the queue is full. Rejects with `PolicyError` for invalid options, or a payload that the codec cannot encode.
   */
  async push(payload: T, options: PushOptions = {}): Promise<string | null> {
    this.#checkOpen()
    const request = pushRequestOf(payload, options, this.#settings, `${this.#subject}: push`)
    const accepted = await this.#pushes.push(request)
    if (accepted) this.#watch.changed()
    return accepted ? request.id : null
  }

  /** Pushes each item in this order, 100 per call. Each is accepted or refused on its own. */
  async pushMany(items: ReadonlyArray<{ payload: T; options?: PushOptions }>): Promise<Array<string | null>> {
    this.#checkOpen()
    const user = `${this.#subject}: pushMany`
    checkItems(items, user)
    const requests = items.map(({ payload, options = {} }) => pushRequestOf(payload, options, this.#settings, user))
    const accepted = await Promise.all(requests.map(request => this.#pushes.push(request)))
    this.#watch.changed()
    return requests.map(({ id }, i) => (accepted[i] ? id : null))
  }

  /**
   * Takes up to `count` due messages, and waits up to `wait` for the first. Resolves to an empty list if there is none.
   */
  async receive(options: ReceiveOptions = {}): Promise<Array<Delivery<T>>> {
    this.#checkOpen()
    const user = `${this.#subject}: receive`
    const { count, patience, visibilityMs } = parseReceiveOptions(options, this.#settings.visibilityMs, user)
    const open = (taken: Taken) => this.#open(taken, visibilityMs)
    const giveBack = (delivery: OpenDelivery<T>) => void delivery.giveBack().catch(() => {})
    const receiving = new Receiving(this.#fetcher, visibilityMs, count, patience, open, giveBack)
    this.#receiving.add(receiving)
    try {
      const deliveries = await receiving.deliveries()
      for (const delivery of deliveries) delivery.handedOver()
      return deliveries
    } finally {
      this.#receiving.delete(receiving)
    }
  }

  /**
   * Calls `handler` for each message when it is due, until the consumer is closed. If the handler resolves, the message
   * is acknowledged; if it throws, the message is nacked with the backoff; neither happens if the handler has settled
   * the message itself. While Redis or the limiter fails no messages arrive, and the observer is told
   * (`consumerFailed`), or without one a process warning (SPILLWAY_QUEUE) is emitted. Throws `PolicyError` for an
   * invalid handler or option.
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
      trouble: this.#trouble,
    })
    this.#watch.changed()
    this.#consumers.add(consumer)
    const close = () => void consumer.close()
    const { signal } = settings
    if (signal?.aborted) close()
    else signal?.addEventListener('abort', close, { once: true })
    consumer.closed.then(() => {
      this.#consumers.delete(consumer)
      if (this.#consumers.size === 0) this.#trouble.close()
      signal?.removeEventListener('abort', close)
    })
    return consumer
  }

  /** Removes a message that waits for its first or next delivery. False if no message with that id waits. */
  async cancel(id: string): Promise<boolean> {
    this.#checkOpen()
    return (await this.#commands.once(queueCancel, this.#keys, [this.#clock(), id])) === 1
  }

  /**
   * Makes a delayed message due in `delay` from now. False if no message with that id is delayed: unknown, due already,
   * or delivered.
   */
  async reschedule(id: string, delay: Duration | 0): Promise<boolean> {
    this.#checkOpen()
    const delayMs = Math.min(LONGEST_DELAY_MS, parseDurationOrZero(delay, `${this.#subject}: reschedule: delay`))
    const reply = await this.#commands.once(queueReschedule, this.#keys, [this.#clock(), id, String(delayMs)])
    return (reply as number[])[0] === 1
  }

  /** The number of messages in the queue now, by their state. Changes nothing. */
  async stats(): Promise<QueueStats> {
    this.#checkOpen()
    const { ready, delayed, unacked, dead, nextDueAt } = await this.#look()
    return { ready, delayed, unacked, dead, nextDueAt }
  }

  /**
   * What the queue holds now, by one call of Redis that changes nothing. Throws `PolicyError` for invalid options;
   * rejects with `StoreError` as `stats` does.
   */
  async inspect(options: QueueInspectOptions = {}): Promise<QueueView> {
    this.#checkOpen()
    const look = await this.#look(parseQueueInspectOptions(options, `${this.#subject}: inspect`))
    const { nextDueMs: _, ...view } = look
    return view
  }

  /**
   * Stops all deliveries, in all processes, until `resume`. Open deliveries can still be settled. Handlers that have
   * begun go on; so do messages that a process has fetched for a handler that is free, but none that waits for a
   * limiter.
   */
  async pause(): Promise<void> {
    this.#checkOpen()
    await this.#commands.once(queuePause, this.#keys, [this.#clock(), '1'])
  }

  /** Ends a pause: due messages are delivered again. */
  async resume(): Promise<void> {
    this.#checkOpen()
    await this.#commands.once(queuePause, this.#keys, [this.#clock(), '0'])
  }

  /** The dead letters, oldest first. `limit`: integer from 0, or Infinity for all; default 100. */
  async dead(options: { limit?: number } = {}): Promise<Array<DeadLetter<T>>> {
    this.#checkOpen()
    checkOptions(`${this.#subject}: dead`, options, { limit: true }, '{ limit: 100 }')
    const { limit = 100 } = options
    if (limit !== Number.POSITIVE_INFINITY) checkInteger(limit, `${this.#subject}: dead: limit`, 100, 0)
    return this.#dead.list(limit)
  }

  /**
   * Puts dead letters back, those with these ids or all: ready at once, attempts from 1, without their ttl. A letter
   * stays if its id is in the queue again, or if its record has another version. Resolves to the number of letters put
   * back.
   */
  async redrive(options: { ids?: readonly string[] } = {}): Promise<number> {
    this.#checkOpen()
    return this.#dead.redrive(idsOf(options, `${this.#subject}: redrive`))
  }

  /**
   * Deletes dead letters for good, those with these ids or all. Resolves to their number. To put them back instead, use
   * `redrive`.
   */
  async discard(options: { ids?: readonly string[] } = {}): Promise<number> {
    this.#checkOpen()
    return this.#dead.discard(idsOf(options, `${this.#subject}: discard`))
  }

  /** Removes all messages, dead letters too. Open deliveries become stale; a pause continues. */
  async clear(): Promise<void> {
    this.#checkOpen()
    await this.#commands.once(queueClear, this.#keys, [this.#clock()])
  }

  /**
   * Closes its consumers, with their grace of 30 s; a waiting `receive` resolves to what it has. Does not wait for
   * Redis without a connection, and at most two seconds for a Redis that hangs: fetched messages are then delivered
   * again when their visibility ends. The client stays open.
   */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  /** As `close`, for `await using`. */
  [asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    this.#fetcher.watches.delete(this.#watch)
    this.#watch.close()
    for (const receiving of this.#receiving) receiving.end()
    await Promise.all([...this.#consumers].map(consumer => consumer.close()))
    await Promise.all([this.#commands.closing(this.#release()), this.#commands.close()])
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

  async #look(wanted: WantedMessages = NO_MESSAGES): Promise<QueueLook> {
    const { deadTtlMs } = this.#settings
    const args = [this.#clock(), String(deadTtlMs), String(wanted.limit), wanted.state, wanted.id]
    return parseQueueLook(await this.#commands.run(queueLook, this.#keys, args))
  }

  async #levels(): Promise<QueueLevels> {
    const { ready, delayed, unacked, overdueMs, nextDueMs } = await this.#look()
    return { depth: ready + delayed + unacked, overdueMs, nextDueMs }
  }

  #clock(): string {
    return clockArgument(this.#settings.clock)
  }

  #checkOpen(): void {
    if (this.#closed) throw new SpillwayError(`${this.#subject}: closed: expected no call after close()`)
  }
}
