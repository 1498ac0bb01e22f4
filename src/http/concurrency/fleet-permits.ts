import { randomText } from '../../limiter/core/short-key.js'
import type { ClientPort, RedisClient } from '../../redis/client.js'
import { portOf } from '../../redis/clients.js'
import { keyRoot } from '../../redis/keys.js'
import { runScript } from '../../redis/script.js'
import { adaptiveTotal } from '../../redis/scripts.js'
import type { AdaptivePermits } from './permits.js'

/** How often a process reports its limit while requests come. */
const TELL_EVERY_MS = 1000

interface FleetOptions {
  readonly client: RedisClient
  readonly prefix: string
  readonly name: string
  /** A process that has not reported for this long is no longer counted. */
  readonly leaseMs: number
  readonly own: AdaptivePermits
  /** Called when the total changes. */
  readonly changed: () => void
}

/** The total permits of all processes, if each finds its own limit. */
export class FleetPermits {
  readonly #options: FleetOptions
  readonly #port: ClientPort
  readonly #key: string
  readonly #id = randomText(12)
  #total: number | undefined
  #toldAt = Number.NEGATIVE_INFINITY

  constructor(options: FleetOptions) {
    this.#options = options
    this.#port = portOf(options.client, 'concurrencyLimit')
    this.#key = keyRoot('concurrencyLimit', 'adaptive', options.name, options.prefix)
  }

  /** The last known total; before the first answer our own limit. */
  get total(): number {
    return this.#total ?? this.#options.own.limit
  }

  /** Reports the limit of this process, at most once a second. */
  tell(): void {
    const now = performance.now()
    if (now - this.#toldAt < TELL_EVERY_MS) return
    this.#toldAt = now
    // While Redis is away the last total stays valid.
    this.#send(this.#options.own.limit).then(
      total => {
        if (total === this.#total) return
        this.#total = total
        this.#options.changed()
      },
      () => {},
    )
  }

  /** Stops counting the permits of this process. */
  async leave(): Promise<void> {
    if (this.#total !== undefined) await this.#send(0).catch(() => {})
  }

  async #send(limit: number): Promise<number> {
    const args = [this.#id, String(limit), String(this.#options.leaseMs)]
    return Number(await runScript(this.#port, adaptiveTotal, [this.#key], args))
  }
}
