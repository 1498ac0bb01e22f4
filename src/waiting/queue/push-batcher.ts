import { afterIo, type Clock } from '../../limiter/core/clock.js'
import { type Commands, clockArgument } from '../../redis/commands.js'
import { queuePush } from '../../redis/scripts.js'
import { PendingCalls } from './pending-calls.js'
import { maxAttemptsText, queueKeys } from './record.js'

/** A message to push. */
export interface PushRequest {
  readonly id: string
  /** In ms; undefined: `at` applies. */
  readonly delayMs: number | undefined
  /** Moment in ms since the epoch, server time. */
  readonly at: number
  readonly priority: number
  readonly ttlMs: number | undefined
  readonly maxAttempts: number
  /** Headers and payload, which scripts do not read. */
  readonly body: string
}

/** Limits of one call. */
const MOST_MESSAGES = 100
const MOST_CHARACTERS = 1_000_000

/**
 * Sends messages in order. Messages of one turn of the event loop, and those that come while a call is in flight, share
 * a call.
 */
export class PushBatcher {
  readonly #commands: Commands
  readonly #keys: readonly string[]
  readonly #clock: Clock | undefined
  readonly #maxSize: number
  readonly #pending: PendingCalls<PushRequest, boolean>
  #sending = false
  #scheduled = false

  constructor(commands: Commands, keyBase: string, maxSize: number | undefined, clock: Clock | undefined) {
    this.#commands = commands
    this.#pending = new PendingCalls(commands)
    this.#keys = queueKeys(keyBase)
    this.#maxSize = maxSize ?? -1
    this.#clock = clock
  }

  /** False if its id is already in the queue, or the queue is full. Rejects with `StoreError`. */
  push(message: PushRequest): Promise<boolean> {
    const accepted = this.#pending.add(message)
    if (!this.#sending && !this.#scheduled) {
      this.#scheduled = true
      afterIo(() => {
        this.#scheduled = false
        this.#send()
      })
    }
    return accepted
  }

  #send(): void {
    let characters = 0
    const batch = this.#pending.take(MOST_MESSAGES, ({ body }) => {
      characters += body.length
      return characters <= MOST_CHARACTERS
    })
    if (batch.length === 0) return
    this.#sending = true
    const args = [clockArgument(this.#clock), String(this.#maxSize)]
    for (const { content } of batch) {
      const { id, delayMs, at, priority, ttlMs, maxAttempts, body } = content
      args.push(id, String(delayMs ?? -1), String(at), String(priority), String(ttlMs ?? -1))
      args.push(maxAttemptsText(maxAttempts), body)
    }
    this.#commands.once(queuePush, this.#keys, args).then(
      reply => {
        this.#sent()
        const accepted = reply as number[]
        for (const [i, call] of batch.entries()) call.resolve(accepted[i] === 1)
      },
      error => {
        this.#sent()
        for (const call of batch) call.reject(error)
      },
    )
  }

  #sent(): void {
    this.#sending = false
    this.#send()
  }
}
