import { randomBytes } from 'node:crypto'
import { canBook } from '../algorithms/registry.js'
import type { Verdict } from '../decision.js'
import type { ClientPort, RedisClient } from '../redis/client.js'
import { canListen } from '../redis/listening-of.js'
import { runScript } from '../redis/run-script.js'
import { book, unbook } from '../redis/scripts.js'
import { Subscriber, type Subscription } from '../redis/subscriber.js'
import type { Booking, Charge } from '../store.js'
import type { ChargeKeys } from './redis-charge-keys.js'
import { limitArguments } from './redis-wire.js'

/** A booking of this process whose turn has not come. */
interface Waiter {
  readonly moved: (waitMs: number) => void
  /** Told before the booking itself was answered: news and answers come by different connections. */
  early: number | undefined
  booked: boolean
}

/**
 * The bookings that this process has in Redis. The server keeps the line and tells each process, on a channel of its own, when
 * its waiters move up. A message that is lost costs nothing but the moving up: the turn first booked stays good.
 */
export class Bookings {
  readonly channel: string
  readonly #process = randomBytes(9).toString('base64url')
  readonly #waiters = new Map<string, Waiter>()
  #subscription: Subscription | undefined
  #count = 0

  constructor(
    readonly client: RedisClient,
    readonly port: ClientPort,
    readonly keys: ChargeKeys,
    readonly now: () => string,
  ) {
    this.channel = `${keys.prefix}!turns:`
  }

  async book(charge: Charge, cost: number, maxWaitMs: number, moved: (waitMs: number) => void): Promise<Booking> {
    if (!canBook(charge.limit.algorithm)) throw new TypeError(`${charge.limit.algorithm} cannot book`)
    const tag = this.keys.tagOf(charge)
    const keys = [this.keys.keyOf(charge, tag), this.keys.lineOf(charge, tag)]
    const limit = limitArguments([charge.limit])
    const number = String(this.#count++)
    const id = `${this.#process}/${number}`
    const waiter: Waiter = { moved, early: undefined, booked: false }
    this.#hold(number, waiter)
    try {
      const patience = maxWaitMs === Number.POSITIVE_INFINITY ? '-1' : String(Math.floor(maxWaitMs))
      const reply = await runScript(this.port, book, keys, [this.now(), String(cost), patience, id, ...limit])
      const [wait, remaining, resetAfterMs] = (reply as unknown[]).map(Number)
      const waitMs = wait < 0 ? Number.POSITIVE_INFINITY : wait
      const booked = waitMs > 0 && waitMs <= maxWaitMs
      if (!booked) this.#release(number)
      waiter.booked = booked
      const allowed = waitMs <= maxWaitMs
      const retryAfterMs = allowed ? 0 : waitMs
      const verdict: Verdict = { limit: charge.limit, allowed, remaining, retryAfterMs, resetAfterMs, delayMs: 0 }
      return {
        verdict,
        waitMs: booked && waiter.early !== undefined ? waiter.early : waitMs,
        cancel: async () => {
          this.#release(number)
          await runScript(this.port, unbook, keys, [this.now(), String(cost), this.channel, id, ...limit])
        },
        close: () => this.#release(number),
      }
    } catch (error) {
      this.#release(number)
      throw error
    }
  }

  #hold(number: string, waiter: Waiter): void {
    this.#waiters.set(number, waiter)
    // Where nothing can be heard, turns stay as they were first booked.
    if (!canListen(this.client)) return
    this.#subscription ??= Subscriber.of(this.client, 'RedisStore').subscription(`${this.channel}${this.#process}`, {
      hear: text => this.#hear(text),
      live() {},
    })
    this.#subscription.hold()
  }

  #release(number: string): void {
    if (this.#waiters.delete(number)) this.#subscription?.release()
  }

  /** "number:wait …", as replan.lua writes it. */
  #hear(text: string): void {
    for (const word of text.split(' ')) {
      const [number, wait] = word.split(':')
      const waiter = this.#waiters.get(number)
      if (waiter?.booked) waiter.moved(Number(wait))
      else if (waiter) waiter.early = Number(wait)
    }
  }
}
