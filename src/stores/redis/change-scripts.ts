import { StoreError } from '../../core/errors.js'
import type { ClientPort } from '../../redis/client.js'
import { notConnected } from '../../redis/not-connected.js'
import type { Script } from '../../redis/script.js'
import { TimelyScripts } from '../../redis/timely-scripts.js'
import type { Charge } from '../store.js'
import { UNSPOKEN_DEADLINE_MS } from './batcher.js'
import type { ChargeKeys } from './charge-keys.js'
import { limitArguments } from './wire-format.js'

/** Runs scripts that change what is counted: refunds, settlements, resets, blocks. */
export class ChangeScripts {
  readonly #scripts: TimelyScripts

  /** `byServerClock`: no other clock was given. `first`: sends the decisions that were requested before. */
  constructor(
    readonly port: ClientPort,
    readonly keys: ChargeKeys,
    readonly byServerClock: boolean,
    readonly first: () => void,
  ) {
    this.#scripts = TimelyScripts.of(port)
  }

  /** The limits of charges as script arguments. `now`: a given clock's time as text, '' for the server's. */
  limits(charges: readonly Charge[], tag: number, now: string): string[] {
    const server = this.keys.serverOf(tag)
    const nowMs = now === '' ? () => this.#scripts.serverNow(server) : () => Number(now)
    return limitArguments(
      charges.map(({ limit }) => limit),
      nowMs,
    )
  }

  /** Rejects with `StoreError`. `args` are evaluated when they are sent, and again if the script has to be sent again. */
  async run(
    script: Script,
    tag: number,
    keys: readonly string[],
    args: () => readonly string[],
    endsAt = performance.now() + UNSPOKEN_DEADLINE_MS,
  ): Promise<void> {
    const error = notConnected(this.port.state())
    if (error !== undefined) throw error
    this.first()
    try {
      await this.#scripts.run({
        script,
        keys,
        args: until => [...args(), until],
        endsAt,
        server: this.keys.serverOf(tag),
        byServerClock: this.byServerClock,
      })
    } catch (cause) {
      throw new StoreError(`Redis failed to ${script.name}: ${(cause as Error).message}`, { cause })
    }
  }
}
