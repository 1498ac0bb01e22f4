import { Deadline } from '../core/deadline.js'
import { StoreError } from '../core/errors.js'
import type { ClientPort, RedisClient } from '../redis/client.js'
import { notConnected } from '../redis/not-connected.js'
import { portOf } from '../redis/port-of.js'
import { koaRatelimit } from '../redis/scripts.js'
import { slotOf } from '../redis/slot.js'
import { TimelyScripts } from '../redis/timely-scripts.js'
import type { Count, Counter } from './count.js'

/** A server that has not answered by then has failed for this request. */
const PATIENCE_MS = 5000

/** Counts in Redis, under the key and in the form of koa-ratelimit: at most `max` in any span of the duration, for all processes together. */
export class RedisCounter implements Counter {
  readonly #port: ClientPort
  readonly #scripts: TimelyScripts
  readonly #deadline = new Deadline(PATIENCE_MS)
  readonly #prefix: string
  readonly #total: number
  readonly #max: string
  readonly #duration: string

  constructor(client: RedisClient, namespace: string, max: number, durationMs: number) {
    this.#port = portOf(client, 'koa-ratelimit: db')
    this.#scripts = TimelyScripts.of(this.#port)
    this.#prefix = `${namespace}:`
    this.#total = max
    this.#max = String(max)
    this.#duration = String(durationMs)
  }

  /** Rejects with `StoreError` if Redis fails, is not connected or has not answered within 5 s. */
  async count(id: string): Promise<Count> {
    const lost = notConnected(this.#port.state())
    if (lost !== undefined) {
      this.#port.wake()
      throw lost
    }
    const [now, left, resetAt] = await this.#deadline.hold(this.#run(this.#prefix + id))
    return {
      allowed: left >= 0,
      remaining: Math.max(0, left),
      resetAfterMs: resetAt - now,
      resetAt,
      total: this.#total,
    }
  }

  async #run(key: string): Promise<number[]> {
    try {
      const reply = await this.#scripts.run({
        script: koaRatelimit,
        keys: [key],
        args: until => [this.#duration, this.#max, until],
        endsAt: performance.now() + PATIENCE_MS,
        server: this.#port.cluster ? this.#port.serverOf(slotOf(key)) : '',
        byServerClock: true,
      })
      return (reply as unknown[]).map(Number)
    } catch (cause) {
      if (cause instanceof StoreError) throw cause
      throw new StoreError(`Redis failed: ${(cause as Error).message}`, { cause })
    }
  }
}
