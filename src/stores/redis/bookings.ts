import { canBook } from '../../algorithms/registry.js'
import type { Verdict } from '../../core/decision.js'
import { shown } from '../../core/errors.js'
import type { ClientPort, RedisClient } from '../../redis/client.js'
import { runScript } from '../../redis/run-script.js'
import { book, unbook } from '../../redis/scripts.js'
import { TurnNews } from '../../redis/turn-news.js'
import type { Booking, Charge } from '../store.js'
import type { ChargeKeys } from './charge-keys.js'
import { limitArguments } from './wire.js'

/**
 * The bookings that this process has in Redis. The server keeps the line and tells each process, on a channel of its own, when
 * its waiters move up. A message that is lost costs nothing but the moving up: the turn first booked stays good.
 */
export class Bookings {
  readonly channel: string
  readonly #news: TurnNews

  constructor(
    client: RedisClient,
    readonly port: ClientPort,
    readonly keys: ChargeKeys,
    readonly now: () => string,
  ) {
    this.channel = `${keys.prefix}!turns:`
    this.#news = new TurnNews(client, 'RedisStore', this.channel)
  }

  /** `moved` is told of a new wait even before the booking is answered: news and answers come by different connections. */
  async book(charge: Charge, cost: number, maxWaitMs: number, moved: (waitMs: number) => void): Promise<Booking> {
    if (!canBook(charge.limit.algorithm)) throw new TypeError(`${charge.limit.algorithm} cannot book`)
    const tag = this.keys.tagOf(charge)
    const keys = [this.keys.keyOf(charge, tag), this.keys.lineOf(charge, tag)]
    const blockList = this.keys.blockListOf(charge, tag)
    const limit = limitArguments([charge.limit])
    const id = this.#news.open(moved)
    try {
      const patience = maxWaitMs === Number.POSITIVE_INFINITY ? '-1' : String(Math.floor(maxWaitMs))
      const reply = await runScript(
        this.port,
        book,
        [...keys, blockList],
        [this.now(), String(cost), patience, id, ...limit],
      )
      const [wait, remaining, resetAfterMs, blockedMs] = numbersOf(reply)
      const waitMs = wait < 0 ? Number.POSITIVE_INFINITY : wait
      const allowed = wait >= 0 && waitMs <= maxWaitMs && blockedMs === 0
      const booked = allowed && waitMs > 0
      if (!booked) this.#news.close(id)
      const retryAfterMs = allowed ? 0 : waitMs
      const verdict: Verdict = { limit: charge.limit, allowed, remaining, retryAfterMs, resetAfterMs, delayMs: 0 }
      return {
        verdict,
        waitMs,
        blockedMs,
        cancel: async () => {
          if (!allowed) return
          this.#news.close(id)
          await runScript(this.port, unbook, keys, [this.now(), String(cost), this.channel, id, ...limit])
        },
        close: () => this.#news.close(id),
      }
    } catch (error) {
      this.#news.close(id)
      throw error
    }
  }
}

/** The four numbers that book.lua answers. */
function numbersOf(reply: unknown): number[] {
  const numbers = Array.isArray(reply) ? reply.map(Number) : []
  if (numbers.length === 4 && !numbers.some(Number.isNaN)) return numbers
  throw new TypeError(`given ${shown(reply)}, expected four numbers`)
}
