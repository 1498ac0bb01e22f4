import { randomBytes } from 'node:crypto'
import type { RedisClient } from './client.js'
import { canListen } from './listening-of.js'
import { Subscriber, type Subscription } from './subscriber.js'

/**
 * What the server tells this process of the turns of its waiters, on a channel of its own: see `replan.lua`. Listens only while
 * somebody waits. News may be lost; `missesNothing` and `onLive` tell when.
 */
export class TurnNews {
  readonly #process = randomBytes(9).toString('base64url')
  readonly #waiters = new Map<string, (waitMs: number) => void>()
  readonly #subscription: Subscription | undefined
  #count = 0

  /**
   * `user` names the class that was given the client, `channel` is what the channels of all processes begin with. `onLive` is
   * called when nothing is missed from now on, though something may have been before.
   */
  constructor(
    client: RedisClient,
    user: string,
    readonly channel: string,
    onLive: () => void = () => {},
  ) {
    if (!canListen(client)) return
    this.#subscription = Subscriber.of(client, user).subscription(`${channel}${this.#process}`, {
      hear: text => this.#hear(text),
      live: onLive,
    })
  }

  /** False where nothing can be heard: turns then stay as they were first booked. */
  get missesNothing(): boolean {
    return this.#subscription?.live === true
  }

  /** A new waiter's id, "process/number". Its listener is told of every new wait in ms, even before its booking is answered. */
  open(moved: (waitMs: number) => void): string {
    const number = String(this.#count++)
    this.#waiters.set(number, moved)
    this.#subscription?.hold()
    return `${this.#process}/${number}`
  }

  close(id: string): void {
    if (this.#waiters.delete(id.slice(this.#process.length + 1))) this.#subscription?.release()
  }

  /** "number:wait …" */
  #hear(text: string): void {
    for (const word of text.split(' ')) {
      const [number, wait] = word.split(':')
      this.#waiters.get(number)?.(Number(wait))
    }
  }
}
