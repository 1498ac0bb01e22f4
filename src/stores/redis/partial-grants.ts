import { StoreError, shown } from '../../core/errors.js'
import type { ClientPort } from '../../redis/client.js'
import { notConnected } from '../../redis/not-connected.js'
import { consumeUpTo } from '../../redis/scripts.js'
import { TimelyScripts } from '../../redis/timely-scripts.js'
import type { Asker, Charge } from '../store.js'
import { UNSPOKEN_DEADLINE_MS } from './batcher.js'
import type { ChargeKeys } from './charge-keys.js'
import { limitArguments, VerdictReader } from './wire-format.js'

/** A request that takes as much as fits, at most `cost`; after the decision `cost` is what it has spent, or 1 if it was refused. */
export interface PartialCost {
  cost: number
}

/** Requests that take as much as fits, under limits of one slot: one script call for each. */
export class PartialGrants {
  readonly #scripts: TimelyScripts

  constructor(
    readonly port: ClientPort,
    readonly keys: ChargeKeys,
    /** The given clock's time as text; '' for the server's. */
    readonly now: () => string,
    /** Called with each moment at which a request of this tag was decided. */
    readonly decided: (tag: number, nowMs: number) => void,
    /** Sends earlier decisions first. */
    readonly first: () => void,
  ) {
    this.#scripts = TimelyScripts.of(port)
  }

  ask(charges: readonly Charge[], tag: number, partial: PartialCost, asker: Asker): void {
    const error = notConnected(this.port.state())
    if (error !== undefined) {
      asker.reject(error)
      return
    }
    this.first()
    let now: string
    try {
      now = this.now()
    } catch (cause) {
      asker.reject(new StoreError(`the clock failed: ${(cause as Error)?.message ?? shown(cause)}`, { cause }))
      return
    }
    const server = this.keys.serverOf(tag)
    const nowMs = now === '' ? () => this.#scripts.serverNow(server) : () => Number(now)
    const limits = charges.map(({ limit }) => limit)
    const blocks = charges.map(charge => this.keys.blockListOf(charge, tag))
    const states = charges.map(charge => this.keys.keyOf(charge, tag))
    this.#scripts.ask(
      {
        script: consumeUpTo,
        keys: [...blocks, this.keys.marksOf(charges, tag), ...states],
        args: until => [now, String(partial.cost), ...limitArguments(limits, nowMs), until],
        endsAt: asker.endsAt ?? performance.now() + UNSPOKEN_DEADLINE_MS,
        server,
        byServerClock: now === '',
      },
      reply => {
        const [decidedAt, units] = Array.isArray(reply) ? reply.slice(0, 2).map(Number) : []
        if (!Array.isArray(reply) || !(units >= 1)) {
          asker.reject(new StoreError(`Redis answered ${shown(reply)}, expected a list of numbers`))
          return
        }
        const verdicts = new VerdictReader(reply, 2, limits).next()
        if (verdicts instanceof StoreError) {
          asker.reject(verdicts)
          return
        }
        partial.cost = units
        this.decided(tag, decidedAt)
        asker.resolve(verdicts, performance.now(), decidedAt)
      },
      cause => asker.reject(cause),
    )
  }
}
