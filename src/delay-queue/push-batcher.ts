import type { Clock, Pending } from '../core/clock.js'
import type { Commands } from '../redis/commands.js'
import { queuePush } from '../redis/scripts.js'
import { queueKeys } from './keys.js'
import { maxAttemptsText } from './record.js'

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

interface Push {
  readonly letter: PushRequest
  readonly call: Pending
  resolve(accepted: boolean): void
  reject(error: unknown): void
}

/** Limits of one call. */
const MOST_LETTERS = 100
const MOST_CHARACTERS = 1_000_000

/** Sends messages in order. Messages of one turn of the event loop, and those that come while a call is in flight, share a call. */
export class PushBatcher {
  readonly #commands: Commands
  readonly #keys: readonly string[]
  readonly #clock: Clock | undefined
  readonly #maxSize: number
  #pending: Push[] = []
  #sending = false
  #scheduled = false

  /** `woke` is called when a push has woken idle processes. */
  constructor(
    commands: Commands,
    keyBase: string,
    maxSize: number | undefined,
    clock: Clock | undefined,
    readonly woke: () => void,
  ) {
    this.#commands = commands
    this.#keys = queueKeys(keyBase)
    this.#maxSize = maxSize ?? -1
    this.#clock = clock
  }

  /** False if its id is already in the queue, or the queue is full. Rejects with `StoreError`. */
  push(letter: PushRequest): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const call = this.#commands.begin(error => {
        // Calls expire in their order. This one is not sent any more, unless it is in flight.
        if (this.#pending[0]?.call === call) this.#pending.shift()
        reject(error)
      })
      this.#pending.push({ letter, call, resolve, reject })
      if (this.#sending || this.#scheduled) return
      this.#scheduled = true
      setImmediate(() => {
        this.#scheduled = false
        this.#send()
      })
    })
  }

  #send(): void {
    const batch = this.#pending.splice(0, this.#batchSize())
    if (batch.length === 0) return
    this.#sending = true
    const clock = this.#clock === undefined ? '' : String(Math.floor(this.#clock.now()))
    const args = [clock, String(this.#maxSize)]
    for (const { letter } of batch) {
      const { id, delayMs, at, priority, ttlMs, maxAttempts, body } = letter
      args.push(id, String(delayMs ?? -1), String(at), String(priority), String(ttlMs ?? -1))
      args.push(maxAttemptsText(maxAttempts), body)
    }
    this.#commands.once(queuePush, this.#keys, args).then(
      reply => {
        this.#sent()
        const accepted = reply as number[]
        if (accepted[batch.length] === 1) this.woke()
        for (const [i, { call, resolve }] of batch.entries()) if (this.#commands.end(call)) resolve(accepted[i] === 1)
      },
      error => {
        this.#sent()
        for (const { call, reject } of batch) if (this.#commands.end(call)) reject(error)
      },
    )
  }

  #sent(): void {
    this.#sending = false
    this.#send()
  }

  #batchSize(): number {
    let characters = 0
    const end = this.#pending.findIndex(({ letter }, i) => {
      characters += letter.body.length
      return i === MOST_LETTERS || (i > 0 && characters > MOST_CHARACTERS)
    })
    return end < 0 ? this.#pending.length : end
  }
}
