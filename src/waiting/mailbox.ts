import { getOrMake } from '../core/get-or-make.js'
import { randomText } from '../core/short-key.js'
import type { RedisClient } from '../redis/client.js'
import { keySegment } from '../redis/keys.js'
import { Subscriber, type Subscription } from '../redis/subscriber.js'

/** How often to check whether the connection has been silent for too long, while an object listens. Usually nothing is sent. */
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
  /** Names the object to the scripts: "process/number". */
  readonly address: string
  /** The beginning of the channel names of all processes. */
  readonly channel: string
  readonly #number = String(boxes++)
  readonly #office: Office
  readonly #listener: MailboxListener
  #holds = 0

  constructor(client: RedisClient, prefix: string, listener: MailboxListener) {
    this.channel = channelOf(prefix)
    this.#office = officeOf(client, this.channel)
    this.address = `${this.#office.process}/${this.#number}`
    this.#listener = listener
  }

  /** False if the client provides no connection to listen on, or if the server does not let it listen. */
  get canHear(): boolean {
    return this.#office.subscription !== undefined && !this.#office.refused
  }

  hold(): void {
    const { listeners, missed, subscription } = this.#office
    const isFirst = this.#holds++ === 0
    if (isFirst) listeners.set(this.#number, this.#listener)
    subscription?.hold()
    watch(this.#office)
    if (isFirst && missed.delete(this.#number)) this.#listener.live()
  }

  release(): void {
    if (--this.#holds === 0) this.#office.listeners.delete(this.#number)
    this.#office.subscription?.release()
  }
}

/** The beginning of all processes' channel names, under a prefix of keys. */
function channelOf(prefix: string): string {
  return `${keySegment(prefix)}!turns:`
}

/** One channel for each client, for all objects. A message begins with the number of its object. */
interface Office {
  /** The name of the process in the scripts. */
  readonly process: string
  /** Undefined if the client provides no connection to listen on. */
  readonly subscription: Subscription | undefined
  /** By number; contains only objects that listen, so that objects used once leave nothing behind. */
  readonly listeners: Map<string, MailboxListener>
  /**
   * Numbers of objects that were woken before they listened: an object starts to listen when it reads that it waits, and the
   * wake-up may come before that.
   */
  readonly missed: Set<string>
  /** The server has refused the last subscription. */
  refused: boolean
  checks: ReturnType<typeof setInterval> | undefined
}

/** While an object listens, a silent connection is noticed within five seconds: `Subscription.check` sends a PING after two. */
function watch(office: Office): void {
  const { subscription, listeners, missed } = office
  if (subscription === undefined || office.checks !== undefined) return
  // The timer ends by itself: otherwise a semaphore that is taken and released repeatedly would restart it each time.
  office.checks = setInterval(() => {
    if (listeners.size > 0) {
      subscription.check()
      return
    }
    clearInterval(office.checks)
    office.checks = undefined
    missed.clear()
  }, CHECK_EVERY_MS).unref()
}

const OFFICES = new WeakMap<RedisClient, Map<string, Office>>()

function officeOf(client: RedisClient, channel: string): Office {
  const offices = getOrMake(OFFICES, client, () => new Map())
  return getOrMake(offices, channel, () => newOffice(client, channel))
}

function newOffice(client: RedisClient, channel: string): Office {
  const process = randomText(12)
  const listeners: Office['listeners'] = new Map()
  const missed: Office['missed'] = new Set()
  const tellAll = () => {
    for (const listener of [...listeners.values()]) listener.live()
  }
  const subscription = Subscriber.of(client)?.subscription(`${channel}${process}`, {
    hear: text => {
      const [number = ''] = /^\d+/.exec(text) ?? []
      const listener = listeners.get(number)
      if (listener !== undefined) listener.hear(text.slice(number.length))
      else if (missed.size < MOST_MISSED) missed.add(number)
    },
    live: () => {
      office.refused = false
      tellAll()
    },
    refused: () => {
      if (office.refused) return
      office.refused = true
      // They rely on being woken: from now on they ask more often.
      tellAll()
    },
  })
  const office: Office = { process, subscription, listeners, missed, refused: false, checks: undefined }
  return office
}
