import { keySegment } from '../../limiter/core/key-segment.js'
import { getOrMake } from '../../limiter/core/maps.js'
import { randomText } from '../../limiter/core/short-key.js'
import type { RedisClient } from '../../redis/client.js'
import { Subscriber, type Subscription } from '../../redis/subscriber.js'

/**
 * How often to check whether the connection has been silent for too long, while an object listens. Usually nothing is
 * sent.
 */
const CHECK_EVERY_MS = 250
/** An object that is not recorded as missed asks at the next safety check. */
const MOST_MISSED = 10_000
let boxes = 0

interface MailboxListener {
  /** A wake-up: it is time to ask. `text` is the message after the number of this object. */
  hear(text: string): void
  /** From now on all messages arrive; earlier ones may have been missed. */
  live(): void
}

/** Receives the server's wake-ups for one object of this process. It listens while it is held, and counts how often. */
export class Mailbox {
  /** The beginning of the channel names of all processes. */
  readonly channel: string
  readonly #number = String(boxes++)
  readonly #client: RedisClient
  readonly #listener: MailboxListener
  #channelOfProcess: ProcessChannel | undefined
  #holds = 0

  constructor(client: RedisClient, prefix: string, listener: MailboxListener) {
    this.channel = `${keySegment(prefix)}!turns:`
    this.#client = client
    this.#listener = listener
  }

  /** Names the object to the scripts: "process/number". */
  get address(): string {
    return `${this.#process.name}/${this.#number}`
  }

  /** Made when it is first needed: its name is drawn at random, which some runtimes forbid while a program loads. */
  get #process(): ProcessChannel {
    this.#channelOfProcess ??= ProcessChannel.of(this.#client, this.channel)
    return this.#channelOfProcess
  }

  /** False if the client provides no connection to listen on, or if the server does not let it listen. */
  get canHear(): boolean {
    return this.#process.subscription !== undefined && !this.#process.refused
  }

  hold(): void {
    const { listeners, missed, subscription } = this.#process
    const isFirst = this.#holds++ === 0
    if (isFirst) listeners.set(this.#number, this.#listener)
    subscription?.hold()
    this.#process.watch()
    if (isFirst && missed.delete(this.#number)) this.#listener.live()
  }

  release(): void {
    if (--this.#holds === 0) this.#process.listeners.delete(this.#number)
    this.#process.subscription?.release()
  }
}

const CHANNELS = new WeakMap<RedisClient, Map<string, ProcessChannel>>()

/**
 * The channel of this process: one for each client and prefix, for all objects. A message begins with the number of its
 * object.
 */
class ProcessChannel {
  /** The name of the process in the scripts. */
  readonly name = randomText(12)
  /** Undefined if the client provides no connection to listen on. */
  readonly subscription: Subscription | undefined
  /** By number; contains only objects that listen, so that objects used once leave nothing behind. */
  readonly listeners = new Map<string, MailboxListener>()
  /**
   * Numbers of objects that were woken before they listened: an object starts to listen when it reads that it waits,
   * and the wake-up may come before that.
   */
  readonly missed = new Set<string>()
  /** The server has refused the last subscription. */
  refused = false
  #checks: ReturnType<typeof setInterval> | undefined

  private constructor(client: RedisClient, channel: string) {
    this.subscription = Subscriber.of(client)?.subscription(`${channel}${this.name}`, {
      hear: text => this.#hear(text),
      live: () => {
        this.refused = false
        this.#tellAll()
      },
      refused: () => {
        if (this.refused) return
        this.refused = true
        // They rely on being woken: from now on they ask more often.
        this.#tellAll()
      },
    })
  }

  static of(client: RedisClient, channel: string): ProcessChannel {
    const channels = getOrMake(CHANNELS, client, () => new Map<string, ProcessChannel>())
    return getOrMake(channels, channel, () => new ProcessChannel(client, channel))
  }

  /**
   * While an object listens, a silent connection is noticed within five seconds: `Subscription.check` sends a PING
   * after two.
   */
  watch(): void {
    const { subscription } = this
    if (subscription === undefined || this.#checks !== undefined) return
    // The timer ends by itself: otherwise a semaphore that is taken and released repeatedly would restart it each time.
    this.#checks = setInterval(() => {
      if (this.listeners.size > 0) {
        subscription.check()
        return
      }
      clearInterval(this.#checks)
      this.#checks = undefined
      this.missed.clear()
    }, CHECK_EVERY_MS)
    this.#checks.unref?.()
  }

  #hear(text: string): void {
    const [number = ''] = /^\d+/.exec(text) ?? []
    const listener = this.listeners.get(number)
    if (listener !== undefined) listener.hear(text.slice(number.length))
    else if (this.missed.size < MOST_MISSED) this.missed.add(number)
  }

  #tellAll(): void {
    for (const listener of [...this.listeners.values()]) listener.live()
  }
}
