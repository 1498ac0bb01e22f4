import type { Clock } from '../core/clock.js'
import type { Commands } from '../redis/commands.js'
import { queueDead, queueRedrive } from '../redis/scripts.js'
import type { Codec } from './options.js'
import { parseRecord } from './record.js'

/** A message that was given up: after its last attempt, by `reject`, or because it could not be read. */
export interface DeadLetter<T> {
  /** As the message had it. */
  readonly id: string
  /** The message; the text that Redis holds, where it cannot be read or decoded. */
  readonly payload: T
  /** How often it was delivered. */
  readonly attempts: number
  /** Why it was given up: at most 1000 characters. */
  readonly reason: string
  /** Ms since the epoch, server time. */
  readonly diedAt: number
}

/** Bound of one call. */
const BATCH = 100

/** The dead letters of a queue. */
export class DeadLetters<T> {
  readonly #commands: Commands
  readonly #keys: readonly string[]
  readonly #codec: Codec<T>
  readonly #clock: Clock | undefined

  /** `woke` is called when dead letters that came back have woken processes that sleep. */
  constructor(
    commands: Commands,
    keys: readonly string[],
    codec: Codec<T>,
    clock: Clock | undefined,
    readonly woke: () => void,
  ) {
    this.#commands = commands
    this.#keys = keys
    this.#codec = codec
    this.#clock = clock
  }

  /** Oldest first. */
  async list(limit: number): Promise<Array<DeadLetter<T>>> {
    const letters: Array<DeadLetter<T>> = []
    for (let from = 0; from < limit; from += BATCH) {
      const count = Math.min(BATCH, limit - from)
      const reply = await this.#commands.run(queueDead, this.#keys, [String(from), String(count)])
      const rows = reply as Array<[string, string, number, string, number]>
      for (const row of rows) letters.push(this.#letterOf(row))
      if (rows.length < count) break
    }
    return letters
  }

  /** Brings back the letters of these ids, or all. Resolves to how many came back. */
  async redrive(ids: readonly string[] | undefined): Promise<number> {
    let back = 0
    if (ids !== undefined) {
      for (let i = 0; i < ids.length; i += BATCH) back += (await this.#redrive(0, ids.slice(i, i + BATCH)))[0]
      return back
    }
    // Letters that stay are passed over from then on.
    for (let stay = 0; ; ) {
      const [came, looked] = await this.#redrive(stay, [])
      back += came
      stay += looked - came
      if (looked < BATCH) return back
    }
  }

  async #redrive(from: number, ids: readonly string[]): Promise<[came: number, looked: number]> {
    const clock = this.#clock === undefined ? '' : String(Math.floor(this.#clock.now()))
    const args = [clock, String(from), String(BATCH), ...ids]
    const [came, looked, woken] = (await this.#commands.once(queueRedrive, this.#keys, args)) as number[]
    if (woken === 1) this.woke()
    return [came, looked]
  }

  #letterOf([id, record, attempts, reason, diedAt]: [string, string, number, string, number]): DeadLetter<T> {
    return { id, payload: this.#payloadOf(record), attempts, reason, diedAt }
  }

  /** The text itself where it cannot be read, which may well be why the message died. */
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
