import type { Clock } from '../../limiter/core/clock.js'
import { type Commands, clockArgument } from '../../redis/commands.js'
import { queueDead, queueDiscard, queueRedrive } from '../../redis/scripts.js'
import type { Codec } from './options.js'
import { parseRecord } from './record.js'

/** A message that failed for good: after its last attempt, by `reject`, or because it could not be read. */
export interface DeadLetter<T> {
  /** The id of the message. */
  readonly id: string
  /** The payload; if it cannot be decoded, the text that Redis holds. */
  readonly payload: T
  /** How often it was delivered. */
  readonly attempts: number
  /** The reason of the failure: at most 1000 characters. */
  readonly reason: string
  /** Ms since the epoch, server time. */
  readonly diedAt: number
}

/** Most messages in one call. */
const BATCH = 100

/** The dead letters of a queue. */
export class DeadLetters<T> {
  readonly #commands: Commands
  readonly #keys: readonly string[]
  readonly #codec: Codec<T>
  readonly #clock: Clock | undefined
  readonly #ttl: string

  /** `ttlMs`: for how long they are kept; -1 for good. */
  constructor(commands: Commands, keys: readonly string[], codec: Codec<T>, clock: Clock | undefined, ttlMs: number) {
    this.#commands = commands
    this.#keys = keys
    this.#codec = codec
    this.#clock = clock
    this.#ttl = String(ttlMs)
  }

  /** Oldest first. */
  async list(limit: number): Promise<Array<DeadLetter<T>>> {
    const letters: Array<DeadLetter<T>> = []
    for (let from = 0; from < limit; ) {
      const count = Math.min(BATCH, limit - from)
      const args = [clockArgument(this.#clock), this.#ttl, String(from), String(count)]
      const reply = await this.#commands.run(queueDead, this.#keys, args)
      const [looked, ...rows] = reply as [number, ...Array<[string, string, number, string, number]>]
      for (const row of rows) letters.push(this.#letterOf(row))
      if (looked === 0) break
      from += looked
    }
    return letters
  }

  /** Puts letters with these ids, or all, back into the queue. Resolves to their number. */
  async redrive(ids: readonly string[] | undefined): Promise<number> {
    let back = 0
    if (ids !== undefined) {
      for (let from = 0; from < ids.length; ) {
        const [came, looked] = await this.#redrive(0, ids.slice(from, from + BATCH))
        back += came
        from += looked
      }
      return back
    }
    // The next page starts behind the letters that stay.
    for (let stay = 0; ; ) {
      const [came, looked] = await this.#redrive(stay, [])
      back += came
      stay += looked - came
      if (looked === 0) return back
    }
  }

  /** Deletes letters with these ids, or all. Resolves to their number. */
  async discard(ids: readonly string[] | undefined): Promise<number> {
    let gone = 0
    if (ids !== undefined) {
      for (let from = 0; from < ids.length; from += BATCH) gone += await this.#discard(ids.slice(from, from + BATCH))
      return gone
    }
    for (;;) {
      const count = await this.#discard([])
      if (count === 0) return gone
      gone += count
    }
  }

  async #discard(ids: readonly string[]): Promise<number> {
    const reply = await this.#commands.once(queueDiscard, this.#keys, [String(BATCH), ...ids])
    return (reply as number[])[0]
  }

  async #redrive(from: number, ids: readonly string[]): Promise<[came: number, looked: number]> {
    const args = [clockArgument(this.#clock), this.#ttl, String(from), String(BATCH), ...ids]
    const [came, looked] = (await this.#commands.once(queueRedrive, this.#keys, args)) as number[]
    return [came, looked]
  }

  #letterOf([id, record, attempts, reason, diedAt]: [string, string, number, string, number]): DeadLetter<T> {
    return { id, payload: this.#payloadOf(record), attempts, reason, diedAt }
  }

  /** If the payload cannot be decoded, the text itself; that may be why the message failed. */
  #payloadOf(record: string): T {
    let text = record
    try {
      text = parseRecord(record).payload
      return this.#codec.decode(text)
    } catch {
      return text as T
    }
  }
}
