import { randomBytes } from 'node:crypto'
import { PolicyError } from '../../core/errors.js'
import { emitWarning } from '../../core/warning.js'
import type { ClientPort, RedisClient } from '../../redis/client.js'
import { listeningOf } from '../../redis/listening-of.js'
import { runScript } from '../../redis/run-script.js'
import { tell } from '../../redis/scripts.js'
import { Subscriber, type Subscription } from '../../redis/subscriber.js'

/**
 * Told of a key whose denials may have ended, by a change anywhere; of `undefined` when such news may have been missed. `endsLeases`: the key was reset or
 * blocked, so that what was bought of it before must not be spent.
 */
export type ResetListener = (key: string | undefined, endsLeases: boolean) => void

/** Refunds and settlements of so long are told in one message. */
const GATHER_MS = 20
/** Above so many, a message says "any key" instead. */
const MOST_KEYS = 1000
const LONGEST_TIMER_MS = 2 ** 31 - 1

interface Message {
  /** Which process tells it. */
  readonly from: string
  /** null: any key. */
  readonly keys: readonly string[] | null
  /** Whether a key was reset or blocked, not only given back to. */
  readonly endsLeases: boolean
}

/**
 * Tells of keys whose denials may have ended: the stores of this process at once, and other processes by a channel. There is one for
 * each client and prefix. It listens while denials are remembered, over the connection of the client's `Subscriber`.
 */
export class ResetChannel {
  readonly #id = randomBytes(9).toString('base64url')
  readonly #listeners = new Set<WeakRef<ResetListener>>()
  readonly #name: string
  readonly #subscription: Subscription | undefined
  #held = false
  #heldUntil = 0
  #release: ReturnType<typeof setTimeout> | undefined
  /** Keys of which other processes are to be told; null: any key. */
  #untold: Set<string> | null = new Set()
  #telling: ReturnType<typeof setTimeout> | undefined
  #warned = false

  private constructor(
    client: RedisClient,
    readonly port: ClientPort,
    prefix: string,
  ) {
    this.#name = `${prefix}!resets`
    this.#subscription = Subscriber.of(client)?.subscription(this.#name, {
      hear: text => this.#hear(text),
      live: () => this.#callAll(undefined, false),
      refused: error => this.#warn(error),
    })
  }

  static of(client: RedisClient, port: ClientPort, prefix: string): ResetChannel {
    let channels = CHANNELS.get(client)
    if (channels === undefined) {
      channels = new Map()
      CHANNELS.set(client, channels)
    }
    let channel = channels.get(prefix)
    if (channel === undefined) {
      channel = new ResetChannel(client, port, prefix)
      channels.set(prefix, channel)
    }
    return channel
  }

  /** The listener is forgotten when nobody else refers to it any more. */
  listen(listener: ResetListener): void {
    for (const known of this.#listeners) if (known.deref() === undefined) this.#listeners.delete(known)
    this.#listeners.add(new WeakRef(listener))
  }

  /** Listens to other processes for `ms` more, and checks that its connection still answers. 0 ends that. */
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

  /** `gathered`: with others of the next 20 ms. */
  tell(keys: readonly string[], { toOthers, gathered }: { toOthers: boolean; gathered: boolean }): void {
    for (const key of keys) this.#callAll(key, !gathered)
    if (!toOthers) return
    if (this.#untold !== null) for (const key of keys) this.#untold.add(key)
    if (this.#untold !== null && this.#untold.size > MOST_KEYS) this.#untold = null
    if (!gathered) this.flush(true)
    else this.#telling ??= setTimeout(() => this.flush(), GATHER_MS)
  }

  /** Tells now what has been gathered. */
  flush(endsLeases = false): void {
    clearTimeout(this.#telling)
    this.#telling = undefined
    const keys = this.#untold === null ? null : [...this.#untold]
    this.#untold = new Set()
    if (keys?.length === 0 || this.port.state() === 'down') return
    const message: Message = { from: this.#id, keys, endsLeases }
    runScript(this.port, tell, [], [this.#name, JSON.stringify(message)]).catch(error => this.#warn(error))
  }

  #releaseLater(): void {
    clearTimeout(this.#release)
    const leftMs = this.#heldUntil - performance.now()
    if (leftMs > 0) {
      this.#release = setTimeout(() => this.#releaseLater(), Math.min(Math.ceil(leftMs), LONGEST_TIMER_MS))
      this.#release.unref()
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

  /** An outage ends, and is told by the calls that fail in it; a lack of permission does not. */
  #warn(error: unknown): void {
    const { message = '' } = (error ?? {}) as Error
    if (this.#warned || !/NOPERM|permission/i.test(message)) return
    this.#warned = true
    emitWarning(
      'SPILLWAY_STORE',
      `RedisStore: other processes are not told of resets and blocks made here: ${message}. Allow publish and subscribe on the ` +
        `channel ${this.#name} (docs/operating.md), or set shareResets: false.`,
    )
  }
}

const CHANNELS = new WeakMap<RedisClient, Map<string, ResetChannel>>()

/** Anybody may publish anything: undefined for what is no message of ours. */
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

/** Whether processes tell each other of resets; `given`: the option `shareResets`. Throws `PolicyError` for a client that can not listen though it should. */
export function sharesResets(client: RedisClient, given: boolean | undefined): boolean {
  const can = listeningOf(client) !== undefined
  if (given !== true || can) return given ?? can
  throw new PolicyError('RedisStore: shareResets true: this client gives no connection to listen on, expected false')
}
