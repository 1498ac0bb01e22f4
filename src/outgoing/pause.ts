import { StoreError } from '../core/errors.js'
import type { RedisHealth } from '../http/concurrency/redis-health.js'
import type { ClientPort, RedisClient } from '../redis/client.js'
import { keyRoot } from '../redis/key-root.js'
import { portOf } from '../redis/port-of.js'
import { runScript } from '../redis/run-script.js'
import { outgoingPause } from '../redis/scripts.js'

/** How old an answer of Redis may be: a pause that another process was told of is heard of within so long. */
const FRESH_MS = 200

/** Until when a partner wants to be left alone, as this process knows it. */
export class Pause {
  /** By `performance.now()`. */
  protected endsAt = Number.NEGATIVE_INFINITY

  /** For how many ms more the partner is to be left alone; 0: it is not. */
  get leftMs(): number {
    return Math.max(0, this.endsAt - performance.now())
  }

  /** The partner has asked to be left alone for so long from now on. */
  begin(ms: number): void {
    this.endsAt = Math.max(this.endsAt, performance.now() + ms)
  }

  /** Asks the other processes, if there are any. Does not reject. */
  async look(): Promise<void> {}
}

interface RedisPauseOptions {
  readonly client: RedisClient
  readonly partner: string
  readonly health: RedisHealth
}

/** The pause of a partner over all processes. While Redis is gone each process knows what it was told itself. */
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

  /** Calls at one time share one question. */
  override async look(): Promise<void> {
    if (performance.now() - this.#lookedAt < FRESH_MS) return
    this.#looking ??= this.#ask(0).then(() => {
      this.#looking = undefined
    })
    // During an outage nobody waits to learn that it goes on.
    if (!this.#health.failing) await this.#looking
  }

  /** Asks Redis anew. False: it does not answer. */
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
