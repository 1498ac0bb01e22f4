import { StoreError, shown } from '../../core/errors.js'
import { consumeUpTo } from '../../redis/scripts.js'
import type { Asker, Charge } from '../store.js'
import type { StoreScripts } from './store-scripts.js'
import { limitArguments, VerdictReader } from './wire-format.js'

/** A request that takes as much as fits, at most `cost`; after the decision `cost` is what it has spent, or 1 if it was refused. */
export interface PartialCost {
  cost: number
}

/** Asks for as much as fits, under limits of one slot: one script call for each request. `decided` is called with the moment of the decision. */
export function askUpTo(
  scripts: StoreScripts,
  charges: readonly Charge[],
  tag: number,
  partial: PartialCost,
  asker: Asker,
  decided: (tag: number, nowMs: number) => void,
): void {
  const { keys } = scripts
  const limits = charges.map(({ limit }) => limit)
  const blocks = charges.map(charge => keys.blockListOf(charge, tag))
  const states = charges.map(charge => keys.keyOf(charge, tag))
  scripts.ask(
    {
      script: consumeUpTo,
      does: 'decide',
      tag,
      keys: [...blocks, keys.marksOf(charges, tag), ...states],
      args: nowMs => [String(partial.cost), ...limitArguments(limits, () => nowMs)],
      endsAt: asker.endsAt,
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
      decided(tag, decidedAt)
      asker.resolve(verdicts, performance.now(), decidedAt)
    },
    error => asker.reject(error),
  )
}
