import type { ClientPort, RedisClient } from '../redis/client.js'
import { notConnected } from '../redis/not-connected.js'
import { portOf } from '../redis/port-of.js'
import { koaRatelimit } from '../redis/scripts.js'
import { KeyedScript } from '../stores/redis/keyed-script.js'
import type { Count, Counter } from './count.js'

/** Counts in Redis, under the key and in the form of koa-ratelimit: at most `max` in any span of the duration, for all processes together. */
export class RedisCounter implements Counter {
  readonly #port: ClientPort
  readonly #script: KeyedScript
  readonly #prefix: string
  readonly #total: number
  readonly #rule: string

  constructor(client: RedisClient, namespace: string, max: number, durationMs: number) {
    this.#port = portOf(client, 'koa-ratelimit: db')
    this.#script = KeyedScript.of(this.#port, koaRatelimit)
    this.#prefix = `${namespace}:`
    this.#total = max
    this.#rule = `${durationMs} ${max}`
  }

  /** Rejects with `StoreError` if Redis fails, is not connected or has not answered within 5 s. */
  count(id: string): Promise<Count> {
    const lost = notConnected(this.#port.state())
    if (lost !== undefined) return Promise.reject(lost)
    return new Promise((resolve, reject) =>
      this.#script.ask(this.#prefix + id, this.#rule, {
        resolve: (left, resetAt, now) =>
          resolve({
            allowed: left >= 0,
            remaining: Math.max(0, left),
            resetAfterMs: resetAt - now,
            resetAt,
            total: this.#total,
          }),
        reject,
      }),
    )
  }
}
