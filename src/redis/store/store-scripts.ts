import { StoreError, shown } from '../../limiter/core/errors.js'
import { DEFAULT_DEADLINE_MS } from '../../limiter/store.js'
import type { ClientPort } from '../client.js'
import type { Script } from '../script.js'
import { type TimelyCall, TimelyScripts } from '../timely-scripts.js'
import type { ChargeKeys } from './charge-keys.js'
import { Outbox } from './outbox.js'

/** A script call about keys of one tag. Its ARGV are the time, `args`, and the last moment at which it may act. */
interface StoreCall extends Pick<TimelyCall, 'script' | 'does' | 'keys' | 'copies' | 'mayRepeat'> {
  readonly script: Script
  readonly tag: number
  /** Called when the script is sent, and again if it has to be sent again. */
  readonly args: (nowMs: number) => readonly string[]
  /** By `performance.now()`; default: a second from now. Infinity: whenever it comes. */
  readonly endsAt?: number
  /**
   * Called when the answer is read, or the call has failed: before the promise of `run` is settled, and so in the order
   * of all answers.
   */
  readonly answered?: (reply?: unknown) => void
}

/** Calls the scripts of a store: those about one key in the order in which they were requested. */
export class StoreScripts {
  readonly timely: TimelyScripts
  readonly outbox: Outbox

  readonly #now: (() => string) | undefined

  constructor(
    readonly port: ClientPort,
    readonly keys: ChargeKeys,
    /** The given clock's time as text; undefined: the server's clock. */
    now: (() => string) | undefined,
  ) {
    this.timely = TimelyScripts.of(port)
    this.outbox = new Outbox(port)
    this.#now = now
  }

  /**
   * The given clock's time as text; '' makes a script read the server's clock. Throws `StoreError` if the given clock
   * fails.
   */
  now(): string {
    if (this.#now === undefined) return ''
    try {
      return this.#now()
    } catch (cause) {
      throw new StoreError(`the clock failed: ${(cause as Error)?.message ?? shown(cause)}`, { cause })
    }
  }

  /**
   * The time of a call, as far as this process knows it: it says in which window of the calendar a limit is. `now`:
   * what `now` has given.
   */
  nowMs(now: string, server: string): number {
    return now === '' ? this.timely.serverNow(server) : Number(now)
  }

  /** Calls `onReply` or `onError` once. */
  send(call: StoreCall, onReply: (reply: unknown) => void, onError: (error: unknown) => void): void {
    const { keys, endsAt = performance.now() + DEFAULT_DEADLINE_MS } = call
    this.outbox.call(keys, {
      size: 1,
      lastEndsAt: endsAt,
      holds: () => false,
      send: () => this.#send({ ...call, endsAt }, onReply, onError),
      reject: onError,
    })
  }

  #send(
    { tag, args, ...call }: StoreCall & { readonly endsAt: number },
    onReply: (reply: unknown) => void,
    onError: (error: unknown) => void,
  ): void {
    let now: string
    try {
      now = this.now()
    } catch (error) {
      onError(error)
      return
    }
    const server = this.keys.serverOf(tag)
    this.timely.send(
      {
        ...call,
        args: until => [now, ...args(this.nowMs(now, server)), until],
        server,
        byServerClock: now === '',
      },
      onReply,
      onError,
    )
  }

  /** As `send`. Rejects with `StoreError`. */
  run(call: StoreCall): Promise<unknown> {
    const { answered } = call
    return new Promise((resolve, reject) =>
      this.send(
        call,
        reply => {
          answered?.(reply)
          resolve(reply)
        },
        error => {
          answered?.()
          reject(error)
        },
      ),
    )
  }
}
