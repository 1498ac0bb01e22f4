import { randomBytes } from 'node:crypto'
import type { RedisClient } from '../redis/client.js'
import { keySegment } from '../redis/keys.js'
import { canListen } from '../redis/listening-of.js'
import { Subscriber, type Subscription } from '../redis/subscriber.js'

/** One channel a process, however many objects listen: messages begin with the number of the object that is meant. */
const PROCESS = randomBytes(9).toString('base64url')
let boxes = 0

export interface MailboxListener {
  hear(text: string): void
  /** Everything is heard from now on; something before may have been missed. */
  live(): void
}

/** Where Redis tells one object of this process what concerns it. It hears while it is held, as often as it is held. */
export class Mailbox {
  /** Names it to the scripts: "process/number". */
  readonly party: string
  /** What the channels of all processes begin with. */
  readonly channel: string
  /** False where the client gives no connection to listen on: then one has to ask. */
  readonly canHear: boolean
  readonly #number = String(boxes++)
  readonly #office: Office | undefined
  readonly #listener: MailboxListener
  #holds = 0

  constructor(client: RedisClient, user: string, prefix: string, listener: MailboxListener) {
    this.channel = `${keySegment(prefix)}!turns:`
    this.party = `${PROCESS}/${this.#number}`
    this.canHear = canListen(client)
    this.#listener = listener
    if (this.canHear) this.#office = officeOf(client, user, this.channel)
  }

  /** True while nothing is missed. */
  get live(): boolean {
    return this.#office?.subscription.live === true
  }

  hold(): void {
    if (this.#holds++ === 0) this.#office?.listeners.set(this.#number, this.#listener)
    this.#office?.subscription.hold()
  }

  release(): void {
    if (--this.#holds === 0) this.#office?.listeners.delete(this.#number)
    this.#office?.subscription.release()
  }
}

interface Office {
  readonly subscription: Subscription
  /** By number; only of those who listen, so that objects used once leave nothing behind. */
  readonly listeners: Map<string, MailboxListener>
}

const OFFICES = new WeakMap<RedisClient, Map<string, Office>>()

function officeOf(client: RedisClient, user: string, channel: string): Office {
  let offices = OFFICES.get(client)
  if (offices === undefined) {
    offices = new Map()
    OFFICES.set(client, offices)
  }
  let office = offices.get(channel)
  if (office === undefined) {
    const listeners: Office['listeners'] = new Map()
    const subscription = Subscriber.of(client, user).subscription(`${channel}${PROCESS}`, {
      hear: text => {
        const end = text.indexOf(' ')
        listeners.get(text.slice(0, end))?.hear(text.slice(end + 1))
      },
      live: () => {
        for (const listener of [...listeners.values()]) listener.live()
      },
    })
    office = { subscription, listeners }
    offices.set(channel, office)
  }
  return office
}
