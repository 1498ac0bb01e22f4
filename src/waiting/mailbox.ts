import { randomBytes } from 'node:crypto'
import type { RedisClient } from '../redis/client.js'
import { keySegment } from '../redis/keys.js'
import { Subscriber, type Subscription } from '../redis/subscriber.js'

/** How often to see whether the connection has been silent for too long, while somebody listens. Mostly it has not, and nothing is sent. */
const CHECK_EVERY_MS = 250
/** Who is not remembered asks at the safety check. */
const MOST_MISSED = 10_000
let boxes = 0

interface MailboxListener {
  /** Something has changed: time to ask. `text` is what follows the number of this object. */
  hear(text: string): void
  /** Everything is heard from now on; messages before may have been missed. */
  live(): void
}

/** Where the server tells one object of this process to ask. It listens while it is held, as often as it is held. */
export class Mailbox {
  /** Names the object to the scripts: "process/number". */
  readonly address: string
  /** What the channels of all processes begin with. */
  readonly channel: string
  /** False where the client gives no connection to listen on. */
  readonly canHear: boolean
  readonly #number = String(boxes++)
  readonly #office: Office
  readonly #listener: MailboxListener
  #holds = 0

  constructor(client: RedisClient, prefix: string, listener: MailboxListener) {
    this.channel = channelOf(prefix)
    this.#office = officeOf(client, this.channel)
    this.canHear = this.#office.subscription !== undefined
    this.address = `${this.#office.process}/${this.#number}`
    this.#listener = listener
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

/** What the channels of all processes begin with, under a prefix of keys. */
function channelOf(prefix: string): string {
  return `${keySegment(prefix)}!turns:`
}

/** One channel for each client, however many objects listen. A message begins with the number of the object that is meant. */
interface Office {
  /** What the scripts take for the name of the process. */
  readonly process: string
  /** Undefined where the client gives no connection to listen on. */
  readonly subscription: Subscription | undefined
  /** By number; only of objects that listen, so that objects used once leave nothing behind. */
  readonly listeners: Map<string, MailboxListener>
  /**
   * Numbers of objects that were told something before they listened: an object listens from when it reads that it waits, and may be told to
   * ask before that.
   */
  readonly missed: Set<string>
  checks: ReturnType<typeof setInterval> | undefined
}

/** While somebody listens a silent connection is noticed within five seconds: `Subscription.check` sends a PING after two. */
function watch(office: Office): void {
  const { subscription, listeners, missed } = office
  if (subscription === undefined || office.checks !== undefined) return
  // It ends by itself: a semaphore that is taken and released again and again would start it each time.
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
  let offices = OFFICES.get(client)
  if (offices === undefined) {
    offices = new Map()
    OFFICES.set(client, offices)
  }
  let office = offices.get(channel)
  if (office === undefined) {
    office = newOffice(client, channel)
    offices.set(channel, office)
  }
  return office
}

function newOffice(client: RedisClient, channel: string): Office {
  const process = randomBytes(9).toString('base64url')
  const listeners: Office['listeners'] = new Map()
  const missed: Office['missed'] = new Set()
  const subscription = Subscriber.of(client)?.subscription(`${channel}${process}`, {
    hear: text => {
      const [number = ''] = /^\d+/.exec(text) ?? []
      const listener = listeners.get(number)
      if (listener !== undefined) listener.hear(text.slice(number.length))
      else if (missed.size < MOST_MISSED) missed.add(number)
    },
    live: () => {
      for (const listener of [...listeners.values()]) listener.live()
    },
  })
  return { process, subscription, listeners, missed, checks: undefined }
}
