import { NotInitializedError } from '../../../limiter/core/errors.js'
import type { Listed } from '../../../limiter/core/listed.js'
import type { RedisClient } from '../../../redis/client.js'
import { DelayQueue } from '../../../waiting/queue/delay-queue.js'
import type { MessageView } from '../../../waiting/queue/queue-look.js'
import { SharedRateLimiter } from '../../../waiting/rate/shared-rate-limiter.js'
import type { LeaseInfo } from '../../../waiting/semaphore/commands.js'
import { Semaphore } from '../../../waiting/semaphore/semaphore.js'
import { withdrawNote } from '../../object-index.js'
import type { QueueCounts, SharedRow } from '../view.js'

/** Most objects that are kept open for inspection. */
const MOST_OBJECTS = 200
const MOST_HOLDERS = 50
const MOST_LETTERS = 20

/** A payload as it stands in Redis. */
const RAW = { encode: (text: unknown) => String(text), decode: (text: string) => text }

/** A row as Redis tells it: the processes tell who the holders are. */
export interface ReadRow {
  readonly row: SharedRow
  readonly leases?: Listed<LeaseInfo>
}

/** A message that was looked up; its payload only where keys are shown in full. */
export type FoundMessage = Omit<MessageView, 'id' | 'payload'> & { readonly payload: string | undefined }

/** A queue as Redis tells it, with some of its dead letters if they were asked for. */
export interface ReadQueue {
  readonly counts: QueueCounts
  readonly letters: readonly DeadView[]
}

/**
 * Inspects shared rates, semaphores and queues by name, and changes them. Every method rejects with `StoreError` when
 * Redis fails.
 */
export class SharedObjects {
  readonly #open = new Map<string, { close(): Promise<void> }>()

  constructor(
    readonly client: RedisClient,
    readonly prefix: string,
  ) {}

  queue(name: string): DelayQueue<string> {
    return this.#object(
      'queue',
      name,
      () => new DelayQueue<string>(this.client, name, { prefix: this.prefix, codec: RAW }),
    )
  }

  rate(name: string): SharedRateLimiter {
    return this.#object('rate', name, () => new SharedRateLimiter(this.client, name, { prefix: this.prefix }))
  }

  semaphore(name: string): Semaphore {
    return this.#object('semaphore', name, () => new Semaphore(this.client, name, { prefix: this.prefix }))
  }

  /** `letters`: whether dead letters are listed; payloads hold what keys hold, and more: `withPayloads`. */
  async queueRow(name: string, letters: boolean, withPayloads: boolean): Promise<ReadQueue> {
    const view = await this.queue(name).inspect({ limit: letters ? MOST_LETTERS : 0, state: 'dead' })
    const { ready, delayed, unacked, dead, nextDueAt, paused } = view
    return {
      counts: { name, ready, delayed, unacked, dead, nextDueAt, paused },
      letters: view.messages.items.map(letter => letterView(letter, withPayloads)),
    }
  }

  /** A message of a queue; undefined: there is none with this id. */
  async message(name: string, id: string, withPayload: boolean): Promise<FoundMessage | undefined> {
    const [found] = (await this.queue(name).inspect({ id, limit: 1 })).messages.items
    if (found === undefined) return undefined
    const { state, dueAt, attempt, reason, payload } = found
    return { state, dueAt, attempt, reason, payload: withPayload ? payload : undefined }
  }

  async rateRow(name: string): Promise<ReadRow> {
    const { config, available, waiting, longestWaitMs } = await this.rate(name).inspect()
    if (config === null) return { row: { kind: 'rate', name, waiting: 0 } }
    const { rate, intervalMs, mode } = config
    const row = { kind: 'rate' as const, name, of: rate, intervalMs, mode, ...line(waiting, longestWaitMs) }
    // In this case each process counts alone, and the dashboard does not know their counts.
    if (mode === 'per-client') return { row }
    return { row: { ...row, inUse: Math.max(0, rate - available) } }
  }

  async semaphoreRow(name: string, withHolders: boolean): Promise<ReadRow> {
    try {
      const view = await this.semaphore(name).inspect({ limit: withHolders ? MOST_HOLDERS : 0 })
      const { permits, available, waiting, longestWaitMs, holders } = view
      const row = {
        kind: 'semaphore' as const,
        name,
        inUse: permits - available,
        of: permits,
        ...line(waiting, longestWaitMs),
      }
      return withHolders ? { row, leases: holders } : { row }
    } catch (error) {
      if (error instanceof NotInitializedError) return { row: { kind: 'semaphore', name, waiting: 0 } }
      throw error
    }
  }

  #object<T extends { close(): Promise<void> }>(kind: string, name: string, make: () => T): T {
    const id = `${kind} ${name}`
    const known = this.#open.get(id)
    if (known !== undefined) return known as T
    const [oldest] = this.#open
    if (this.#open.size >= MOST_OBJECTS && oldest !== undefined) {
      this.#open.delete(oldest[0])
      oldest[1].close().catch(() => {})
    }
    const object = make()
    withdrawNote(this.client, kind, name, this.prefix, object)
    this.#open.set(id, object)
    return object
  }
}

function line(waiting: number, longestWaitMs: number): { waiting: number; firstMs?: number } {
  return waiting > 0 ? { waiting, firstMs: longestWaitMs } : { waiting }
}

export type DeadView = ReturnType<typeof letterView>

function letterView({ id, reason = '', attempt, dueAt, payload }: MessageView, withPayload: boolean) {
  return {
    id,
    reason,
    attempts: attempt,
    diedAt: dueAt,
    /** Its first kilobyte; only where keys are shown in full. */
    payload: withPayload ? payload : undefined,
  }
}
