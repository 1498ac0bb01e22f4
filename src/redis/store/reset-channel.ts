import { LONGEST_TIMER_MS } from '../../limiter/core/clock.js'
import { PolicyError } from '../../limiter/core/errors.js'
import { getOrMake } from '../../limiter/core/maps.js'
import { randomText } from '../../limiter/core/short-key.js'
import { emitWarning } from '../../limiter/core/warnings.js'
import type { ClientPort, RedisClient } from '../client.js'
import { listeningOf } from '../clients.js'
import { runScript } from '../script.js'
import { publish } from '../scripts.js'
import { Subscriber, type Subscription } from '../subscriber.js'

/**
 * Called with a key whose denials may have ended by a change anywhere; with `undefined` when such messages may have
 * been lost. `endsLeases`: the key was reset or blocked, so that its leases must not be spent.
 */
export type ResetListener = (key: string | undefined, endsLeases: boolean) => void

/** Refunds and settlements of this time share one message. */
const GATHER_MS = 20
/** Above this number of keys, a message says "any key" instead. */
const MOST_KEYS = 1000

interface Message {
  /** The sending process. */
  readonly from: string
  /** null: any key. */
  readonly keys: readonly string[] | null
  /** Whether a key was reset or blocked, rather than only given units back. */
  readonly endsLeases: boolean
}

/**
 * Announces keys whose denials may have ended: at once to the stores of this process, and by a channel to other
 * processes. One channel exists per client and prefix. It listens while denials are remembered, over the connection of
 * the client's `Subscriber`.
 */
export class ResetChannel {
  readonly #id = randomText(12)
  readonly #listeners = new Set<WeakRef<ResetListener>>()
  /** The channel on which changes are announced. */
  readonly name: string
  readonly #subscription: Subscription | undefined
  #held = false
  #heldUntil = 0
  #release: ReturnType<typeof setTimeout> | undefined
  /** Keys to announce to other processes; null: any key. */
  #unsent: Set<string> | null = new Set()
  #sending: ReturnType<typeof setTimeout> | undefined
  #warned = false

  private constructor(
    client: RedisClient,
    readonly port: ClientPort,
    prefix: string,
  ) {
    this.name = `${prefix}!resets`
    this.#subscription = Subscriber.of(client)?.subscription(this.name, {
      hear: text => this.#hear(text),
      live: () => this.#callAll(undefined, false),
      refused: error => this.warn(error),
    })
  }

  static of(client: RedisClient, port: ClientPort, prefix: string): ResetChannel {
    const channels = getOrMake(CHANNELS, client, () => new Map())
    return getOrMake(channels, prefix, () => new ResetChannel(client, port, prefix))
  }

  /** The listener is held weakly: the caller must keep it. */
  listen(listener: ResetListener): void {
    for (const known of this.#listeners) if (known.deref() === undefined) this.#listeners.delete(known)
    this.#listeners.add(new WeakRef(listener))
  }

  /** Listens to other processes for `ms` more, and checks that the connection still answers. 0 stops listening. */
  hearFor(ms: number): void {
    if (this.#subscription === undefined || ms === Number.POSITIVE_INFINITY) return
    const until = ms === 0 ? 0 : performance.now() + ms
    if (until > this.#heldUntil || ms === 0) this.#heldUntil = until
    if (this.#held) this.#subscription.check()
    else if (ms > 0) {
      this.#held = true
      this.#subscription.hold()
    }
    if (this.#held && (ms === 0 || this.#release === undefined)) this.#releaseLater()
  }

  /**
   * The message that the script of a change publishes; '' if the change is announced later, with others of the same 20
   * ms. `tells`: see `Changes`.
   */
  message(keys: readonly string[], tells: 'units' | 'key'): string {
    if (tells === 'units') {
      if (this.#sending !== undefined) return ''
      this.#sending = setTimeout(() => this.flush(), GATHER_MS)
      this.#sending.unref?.()
    }
    return JSON.stringify({ from: this.#id, keys, endsLeases: tells === 'key' } satisfies Message)
  }

  /** A change was made: tells the stores of this process. */
  changed(keys: readonly string[], tells: 'units' | 'key'): void {
    for (const key of keys) this.#callAll(key, tells === 'key')
  }

  /** Announces changes whose scripts published no message. */
  gather(keys: readonly string[]): void {
    if (this.#unsent !== null) for (const key of keys) this.#unsent.add(key)
    if (this.#unsent !== null && this.#unsent.size > MOST_KEYS) this.#unsent = null
    this.#sending ??= setTimeout(() => this.flush(), GATHER_MS)
    this.#sending.ref?.()
  }

  /** Sends the gathered keys now. */
  flush(): void {
    clearTimeout(this.#sending)
    this.#sending = undefined
    const keys = this.#unsent === null ? null : [...this.#unsent]
    this.#unsent = new Set()
    if (keys?.length === 0 || this.port.state() === 'down') return
    const message: Message = { from: this.#id, keys, endsLeases: false }
    runScript(this.port, publish, [], [this.name, JSON.stringify(message)]).catch(error => this.warn(error))
  }

  #releaseLater(): void {
    clearTimeout(this.#release)
    const leftMs = this.#heldUntil - performance.now()
    if (leftMs > 0) {
      this.#release = setTimeout(() => this.#releaseLater(), Math.min(Math.ceil(leftMs), LONGEST_TIMER_MS))
      this.#release.unref?.()
      return
    }
    this.#release = undefined
    this.#held = false
    this.#subscription?.release()
  }

  #hear(text: string): void {
    const message = messageOf(text)
    if (message === undefined || message.from === this.#id) return
    const { keys, endsLeases } = message
    if (keys === null) this.#callAll(undefined, endsLeases)
    else for (const key of keys) this.#callAll(key, endsLeases)
  }

  #callAll(key: string | undefined, endsLeases: boolean): void {
    for (const listener of this.#listeners) listener.deref()?.(key, endsLeases)
  }

  /** No warning for an outage, which ends and which the failing calls report; but one for a missing permission. */
  warn(error: unknown): void {
    const { message = '' } = (error ?? {}) as Error
    if (this.#warned || !/NOPERM|permission/i.test(message)) return
    this.#warned = true
    emitWarning(
      'SPILLWAY_STORE',
      `RedisStore: other processes are not told of resets and blocks made here: ${message}. Allow publish and ` +
        `subscribe on the channel ${this.name} (docs/operating.md), or set shareResets: false.`,
    )
  }
}

const CHANNELS = new WeakMap<RedisClient, Map<string, ResetChannel>>()

/** Any client may publish on the channel: undefined for an invalid message. */
function messageOf(text: string): Message | undefined {
  let message: Partial<Message> | null
  try {
    message = JSON.parse(text)
  } catch {
    return undefined
  }
  if (typeof message !== 'object' || message === null || typeof message.from !== 'string') return undefined
  const { from, keys, endsLeases } = message
  if (keys === null) return { from, keys, endsLeases: endsLeases === true }
  if (!Array.isArray(keys) || keys.some(key => typeof key !== 'string')) return undefined
  return { from, keys, endsLeases: endsLeases === true }
}

/**
 * Whether processes announce resets to each other; `given`: the option `shareResets`. Throws `PolicyError` if it is
 * true and the client cannot subscribe.
 */
export function sharesResets(client: RedisClient, given: boolean | undefined): boolean {
  const can = listeningOf(client) !== undefined
  if (given !== true || can) return given ?? can
  throw new PolicyError('RedisStore: shareResets true: this client gives no connection to listen on, expected false')
}
