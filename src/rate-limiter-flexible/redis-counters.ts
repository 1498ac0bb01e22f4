import { createHash } from 'node:crypto'
import { Deadline } from '../core/deadline.js'
import { StoreError } from '../core/errors.js'
import type { ClientPort, RedisClient } from '../redis/client.js'
import { portOf } from '../redis/port-of.js'
import { runScript } from '../redis/run-script.js'
import type { Script } from '../redis/script.js'
import { flexibleCount, flexibleGet, flexibleSet } from '../redis/scripts.js'
import { TimelyScripts } from '../redis/timely-scripts.js'
import { type KeyedAsker, KeyedScript } from '../stores/redis/keyed-script.js'

/** A call without an answer fails after this time, and the script does not act later. */
const PATIENCE_MS = 5000

/** A counter as Redis has it. */
export interface RedisCount {
  readonly consumed: number
  /** -1: it lives without end. */
  readonly msLeft: number
}

/** When a count blocks its key, and for how long. */
export interface BlockRule {
  readonly low: number
  readonly high: number
  readonly ms: number
}

/** Plain counters with a lifetime, in the form of rate-limiter-flexible. What fails rejects with `StoreError`. */
export class RedisCounters {
  readonly port: ClientPort
  readonly #scripts: TimelyScripts
  readonly #counting: KeyedScript
  /** The rule of the last call, which is usually the same in the next one. */
  #rule = ''
  #points = ''
  #lifetimeMs = Number.NaN
  readonly #deadline = new Deadline(PATIENCE_MS)

  constructor(client: RedisClient) {
    this.port = portOf(client, 'RateLimiterRedis: storeClient')
    this.#scripts = TimelyScripts.of(this.port)
    this.#counting = KeyedScript.of(this.port, flexibleCount)
  }

  /** Passes the asker the count and its remaining ms, -1: without end. */
  add(key: string, points: string, lifetimeMs: number, block: BlockRule | undefined, asker: KeyedAsker): void {
    if (block === undefined && points === this.#points && lifetimeMs === this.#lifetimeMs) {
      this.#counting.ask(key, this.#rule, asker)
      return
    }
    this.#points = points
    this.#lifetimeMs = block === undefined ? lifetimeMs : Number.NaN
    this.#rule = `${points} ${whole(lifetimeMs)}`
    if (block !== undefined) this.#rule += ` ${whole(block.ms)} ${block.low} ${block.high}`
    this.#counting.ask(key, this.#rule, asker)
  }

  /** Runs the user's own script with the arguments of rate-limiter-flexible. */
  async addBy(source: string, key: string, args: readonly string[]): Promise<RedisCount> {
    const script: Script = { name: 'custom', sha1: createHash('sha1').update(source).digest('hex'), source }
    this.#counting.flush()
    const [consumed, msLeft] = (await this.#held(runScript(this.port, script, [key], args))) as unknown[]
    return { consumed: Number(consumed), msLeft: Number(msLeft) }
  }

  async get(key: string): Promise<RedisCount | undefined> {
    const [, points, msLeft] = await this.#run(flexibleGet, key, [], false)
    return points === null ? undefined : { consumed: Number.parseInt(String(points), 10), msLeft: Number(msLeft) }
  }

  async set(key: string, points: string, lifetimeMs: number): Promise<void> {
    await this.#run(flexibleSet, key, [points, whole(lifetimeMs)], true)
  }

  /** False if there was none. */
  async delete(key: string): Promise<boolean> {
    const [, deleted] = await this.#run(flexibleSet, key, ['', '0'], true)
    return Number(deleted) > 0
  }

  #run(script: Script, key: string, args: readonly string[], changes: boolean): Promise<unknown[]> {
    this.#counting.flush()
    const reply = this.#scripts.run({
      script,
      keys: [key],
      args: until => [...args, until],
      endsAt: changes ? performance.now() + PATIENCE_MS : Number.POSITIVE_INFINITY,
      server: this.port.serverOf(this.port.slotOf(key)),
      byServerClock: true,
    })
    return this.#held(reply) as Promise<unknown[]>
  }

  async #held(reply: Promise<unknown>): Promise<unknown> {
    try {
      return await this.#deadline.hold(reply)
    } catch (cause) {
      if (cause instanceof StoreError) throw cause
      throw new StoreError(`Redis failed: ${(cause as Error).message}`, { cause })
    }
  }
}

function whole(ms: number): string {
  return String(Math.max(0, Math.ceil(ms)))
}
