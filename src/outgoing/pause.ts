import { StoreError } from '../core/errors.js'
import type { RedisHealth } from '../http/concurrency/redis-health.js'
import type { ClientPort, RedisClient } from '../redis/client.js'
import { keyRoot } from '../redis/key-root.js'
import { portOf } from '../redis/port-of.js'
import { runScript } from '../redis/run-script.js'
import { outgoingPause } from '../redis/scripts.js'

/** The greatest age of an answer from Redis: a pause reported by another process is known within this time. */
const FRESH_MS = 200

/** The end of a partner's requested pause, as known to this process. */
export class Pause {
  /** By `performance.now()`. */
  protected endsAt = Number.NEGATIVE_INFINITY

  /** The ms left of the pause; 0: none. */
  get leftMs(): number {
    return Math.max(0, this.endsAt - performance.now())
  }

  /** The partner has asked for a pause of `ms` from now on. */
  begin(ms: number): void {
    this.endsAt = Math.max(this.endsAt, performance.now() + ms)
  }

  /** Reads the pauses of other processes, if there are any. Never rejects. */
  async look(): Promise<void> {}
}

interface RedisPauseOptions {
  readonly client: RedisClient
  readonly partner: string
  readonly health: RedisHealth
}

/** The pause of a partner over all processes. While Redis is gone each process knows only its own. */
export class RedisPause extends Pause {
  readonly #port: ClientPort
  readonly #key: string
  readonly #health: RedisHealth
  #lookedAt = Number.NEGATIVE_INFINITY
  #looking: Promise<void> | undefined

  constructor({ client, partner, health }: RedisPauseOptions) {
    super()
    this.#port = portOf(client, 'politeFetch')
    this.#key = keyRoot('politeFetch', 'pause', `outgoing:${partner}`)
    this.#health = health
  }

  override begin(ms: number): void {
    super.begin(ms)
    void this.#ask(Math.ceil(ms))
  }

  /** Simultaneous calls share one request. */
  override async look(): Promise<void> {
    if (performance.now() - this.#lookedAt < FRESH_MS) return
    this.#looking ??= this.#ask(0).then(() => {
      this.#looking = undefined
    })
    // During an outage no call waits for Redis.
    if (!this.#health.failing) await this.#looking
  }

  /** Asks Redis again. False: it does not answer. */
  async answers(): Promise<boolean> {
    return this.#ask(0)
  }

  async #ask(beginMs: number): Promise<boolean> {
    if (!this.#health.mayAsk()) return false
    const askedAt = performance.now()
    try {
      const left = await this.#health.hold(this.#run(beginMs))
      this.#lookedAt = askedAt
      this.endsAt = Math.max(this.endsAt, askedAt + Number(left))
      return true
    } catch {
      return false
    }
  }

  async #run(beginMs: number): Promise<unknown> {
    try {
      return await runScript(this.#port, outgoingPause, [this.#key], [String(beginMs)])
    } catch (cause) {
      throw new StoreError('politeFetch: Redis failed', { cause })
    }
  }
}
