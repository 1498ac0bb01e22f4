import type { ClientPort, Listening, OpenListening, RedisClient } from './client.js'
import { listeningOf, portOf } from './clients.js'

const FIRST_MS = 50
const LONGEST_MS = 5000

/**
 * Decides when a further connection beside a client is opened: only while the client itself is connected, so that the
 * client's own strategy decides how often a dead server is asked. If the server accepts the client but not this
 * connection, the attempts become rarer: 50 ms apart, then twice as long each time, at most 5 s.
 */
export class Reopening {
  readonly #port: ClientPort
  readonly #open: () => void
  #delayMs = FIRST_MS
  #workedAt = Number.POSITIVE_INFINITY
  /** Defined while the delay after a failure lasts. */
  #timer: ReturnType<typeof setTimeout> | undefined
  /** Defined while an attempt waits for the client. */
  #forgetReady: (() => void) | undefined

  /** `open` makes one attempt. The caller then reports `worked` or `lost`. */
  constructor(port: ClientPort, open: () => void) {
    this.#port = port
    this.#open = open
  }

  /** A connection is wanted now. Does nothing while an attempt is due already. */
  request(): void {
    if (this.#timer !== undefined || this.#forgetReady !== undefined) return
    if (this.#port.state() === 'ready') {
      this.#open()
      return
    }
    this.#forgetReady = this.#port.onReady(() => {
      this.cancel()
      this.#open()
    })
  }

  /** The server serves the connection; may be called often. */
  worked(): void {
    this.#workedAt = Math.min(this.#workedAt, performance.now())
  }

  /** The connection was lost, or could not be made: another one is wanted after the delay. */
  lost(): void {
    if (this.#timer !== undefined) return
    // A connection that ends as soon as it works is no better than one that fails.
    if (performance.now() - this.#workedAt >= this.#delayMs) this.#delayMs = FIRST_MS
    this.#workedAt = Number.POSITIVE_INFINITY
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.request()
    }, this.#delayMs)
    this.#timer.unref?.()
    this.#delayMs = Math.min(LONGEST_MS, this.#delayMs * 2)
  }

  /** No connection is wanted any more. */
  cancel(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#forgetReady?.()
    this.#forgetReady = undefined
  }
}

/** How long a channel stays subscribed after its last release, so that holding it again need not subscribe again. */
const LINGER_MS = 10_000
/** A checked connection that was silent for this long gets a PING; and it has this long to answer. */
const SILENT_MS = 2000
const PONG_MS = 2500

interface ChannelListener {
  /** Receives a published message. Messages that were published while the channel was not live are lost. */
  hear(text: string): void
  /** From now on all messages arrive: for the first time, or again after a loss. Earlier ones may have been missed. */
  live(): void
  /** The server refuses the subscription. It is not tried again before the channel is held anew. */
  refused?(error: Error): void
}

/**
 * Listens to a channel while it is held, and for some seconds after. Hold it once for each waiter, and release it as
 * often.
 */
export interface Subscription {
  /** True while no message can be missed. Until then, ask the server; `live()` of the listener reports the change. */
  readonly live: boolean
  hold(): void
  release(): void
  /** The caller depends on messages now: a connection that has gone silent is found within 5 s, and replaced. */
  check(): void
  /** Stops listening. Release it first, as often as it was held. */
  close(): void
}

interface Channel {
  readonly name: string
  readonly listeners: Set<ChannelListener>
  /** How often it is held now, over all listeners. */
  holds: number
  live: boolean
  idleSince: number
}

const SUBSCRIBERS = new WeakMap<RedisClient, Subscriber>()

/**
 * Receives published messages over one connection per client, shared by all objects of this process. The
 * connection is a duplicate of the user's client, opened when a channel is first held and closed ten seconds after the
 * last release, or at once when all listeners have closed. A lost connection is opened again while any channel is held
 * and the client itself is connected, and all channels are subscribed again.
 *
 * It never keeps the process alive, so a caller that waits for a message needs its own timer, which it needs anyway,
 * because messages can be lost. It never throws and never leaves a rejection unhandled: an outage is silence, followed
 * by `live()`.
 */
export class Subscriber {
  readonly #open: OpenListening
  readonly #channels = new Map<string, Channel>()
  #listening: Listening | undefined
  #opening = false
  readonly #reopening: Reopening
  #sweep: ReturnType<typeof setTimeout> | undefined
  #heardAt = 0
  #pinging = false

  private constructor(open: OpenListening, port: ClientPort) {
    this.#open = open
    this.#reopening = new Reopening(port, () => this.#connect())
  }

  /** The subscriber of a client, one per client; undefined if the client provides no connection to listen on. */
  static of(client: RedisClient): Subscriber | undefined {
    let subscriber = SUBSCRIBERS.get(client)
    const open = subscriber === undefined ? listeningOf(client) : undefined
    if (open !== undefined) {
      subscriber = new Subscriber(open, portOf(client, 'Subscriber'))
      SUBSCRIBERS.set(client, subscriber)
    }
    return subscriber
  }

  /** A listener's subscription to a channel. No connection is opened before it is held. */
  subscription(channel: string, listener: ChannelListener): Subscription {
    const subscriber = this
    return {
      get live() {
        const entry = subscriber.#channels.get(channel)
        return entry?.live === true && entry.listeners.has(listener)
      },
      hold: () => this.#hold(channel, listener),
      release: () => this.#release(channel),
      check: () => this.#check(),
      close: () => this.#close(channel, listener),
    }
  }

  #hold(name: string, listener: ChannelListener): void {
    let channel = this.#channels.get(name)
    if (channel === undefined) {
      channel = { name, listeners: new Set(), holds: 0, live: false, idleSince: 0 }
      this.#channels.set(name, channel)
      if (this.#listening) this.#subscribe(this.#listening, [channel])
    }
    channel.holds++
    channel.listeners.add(listener)
    if (!this.#listening && !this.#opening) this.#reopening.request()
  }

  #release(name: string): void {
    const channel = this.#channels.get(name)
    if (channel === undefined || --channel.holds > 0) return
    channel.idleSince = performance.now()
    this.#sweepIn(LINGER_MS)
  }

  /** Nobody who lingers on the channel will hold it again. */
  #close(name: string, listener: ChannelListener): void {
    const channel = this.#channels.get(name)
    channel?.listeners.delete(listener)
    if (channel === undefined || channel.holds > 0 || channel.listeners.size > 0) return
    channel.idleSince = Number.NEGATIVE_INFINITY
    this.#dropIdle(LINGER_MS)
  }

  #connect(): void {
    this.#dropIdle(0)
    if (this.#channels.size === 0) return
    const events = {
      onMessage: (name: string, text: string) => {
        this.#heardAt = performance.now()
        for (const listener of [...(this.#channels.get(name)?.listeners ?? [])]) listener.hear(text)
      },
      onLost: () => {
        lost = true
        this.#lost()
      },
    }
    let lost = false
    this.#opening = true
    const opened = this.#open(events)
    if (opened === undefined) {
      this.#lost()
      return
    }
    opened.then(
      listening => {
        if (lost) return
        this.#opening = false
        if (this.#channels.size === 0) return listening.close()
        this.#listening = listening
        this.#subscribe(listening, [...this.#channels.values()])
      },
      () => this.#lost(),
    )
  }

  #subscribe(listening: Listening, channels: readonly Channel[]): void {
    listening.subscribe(channels.map(({ name }) => name)).then(
      () => {
        if (this.#listening !== listening) return
        this.#reopening.worked()
        this.#heardAt = performance.now()
        for (const channel of channels) {
          if (this.#channels.get(channel.name) !== channel) continue
          channel.live = true
          for (const listener of [...channel.listeners]) listener.live()
        }
      },
      error => {
        if (this.#listening !== listening) return
        if (isRefusal(error)) {
          this.#subscribeApart(listening, channels, error)
          return
        }
        listening.close()
        this.#lost()
      },
    )
  }

  /** A user may have permission for some channels only; a refused channel is dropped. */
  #subscribeApart(listening: Listening, channels: readonly Channel[], error: Error): void {
    if (channels.length > 1) {
      for (const channel of channels) this.#subscribe(listening, [channel])
      return
    }
    const [channel] = channels
    if (this.#channels.get(channel.name) === channel) this.#channels.delete(channel.name)
    for (const listener of [...channel.listeners]) listener.refused?.(error)
    if (this.#channels.size === 0) this.#dropIdle(0)
  }

  #check(): void {
    const listening = this.#listening
    if (listening === undefined || this.#pinging || performance.now() - this.#heardAt < SILENT_MS) return
    this.#pinging = true
    const lost = () => {
      if (this.#listening !== listening) return
      listening.close()
      this.#lost()
    }
    const timer = setTimeout(() => {
      this.#pinging = false
      lost()
    }, PONG_MS)
    timer.unref?.()
    listening.ping().then(
      () => {
        clearTimeout(timer)
        this.#pinging = false
        this.#heardAt = performance.now()
      },
      () => {
        clearTimeout(timer)
        this.#pinging = false
        lost()
      },
    )
  }

  #lost(): void {
    this.#listening = undefined
    this.#opening = false
    for (const channel of this.#channels.values()) channel.live = false
    this.#dropIdle(0)
    if (this.#channels.size > 0) this.#reopening.lost()
  }

  #sweepIn(ms: number): void {
    if (this.#sweep) return
    this.#sweep = setTimeout(() => {
      this.#sweep = undefined
      const left = this.#dropIdle(LINGER_MS)
      if (left < Number.POSITIVE_INFINITY) this.#sweepIn(Math.ceil(left) + 1)
    }, ms)
    this.#sweep.unref?.()
  }

  /**
   * Unsubscribes channels that have not been held for `lingerMs`. Returns the ms until the next one is due; Infinity
   * when none is idle.
   */
  #dropIdle(lingerMs: number): number {
    const now = performance.now()
    const gone: string[] = []
    let next = Number.POSITIVE_INFINITY
    for (const { name, holds, idleSince } of this.#channels.values()) {
      if (holds > 0) continue
      const left = idleSince + lingerMs - now
      if (left > 0) next = Math.min(next, left)
      else gone.push(name)
    }
    for (const name of gone) this.#channels.delete(name)
    if (this.#listening === undefined) return next
    if (this.#channels.size === 0) {
      this.#listening.close()
      this.#listening = undefined
    } else if (gone.length > 0) {
      this.#listening.unsubscribe(gone).catch(() => {})
    }
    return next
  }
}

function isRefusal(error: unknown): error is Error {
  return error instanceof Error && error.message.startsWith('NOPERM')
}
