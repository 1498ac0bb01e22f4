import { algorithmOf } from '../algorithms/registry.js'
import { monotonicClock } from '../core/clock.js'
import type { Decision, Verdict } from '../core/decision.js'
import { type ChargeReceipt, receiptsOf, type Store } from '../stores/store.js'
import type { Spending } from './settleable-decision.js'

/** A call to make to the store that decided. */
interface SettlementCall {
  readonly receipts: readonly ChargeReceipt[]
  readonly change: (store: Store, receipts: readonly ChargeReceipt[], endsAt?: number) => Promise<void> | void
}

/** Units to give back under some limits of a decision, by their index. */
interface Correction {
  readonly units: number
  readonly places: readonly number[]
}

/** The call that corrects a decision's charge to `actualCost`. */
export function settlement(spending: Spending, decision: Decision, actualCost: number): SettlementCall[] {
  const { chargedAt, askedAt = 0, lease } = spending
  const units = actualCost - decision.cost
  const receipts = receiptsOf(spending.charges, decision.verdicts, chargedAt ?? askedAt, decision.cost)
  if (units > 0) return [{ receipts, change: (store, part, endsAt) => store.charge?.(part, units, endsAt) }]
  if (lease !== undefined) return [{ receipts, change: (_store, _part, endsAt) => lease.settle(-units, endsAt) }]
  if (chargedAt !== undefined && spending.store.giveBack !== undefined) {
    return [{ receipts, change: (store, part, endsAt) => store.giveBack?.(part, -units, endsAt) }]
  }
  const { clock = monotonicClock } = spending.store
  return refunds(decision, -units, clock.now() - askedAt).map(({ units, places }) => ({
    receipts: receipts.filter((_, place) => places.includes(place)),
    change: (store, part, endsAt) => store.refund(part, units, endsAt),
  }))
}

/** For a store that cannot give back a decision's own units: what it may refund for a decision of that age. */
export function refunds(decision: Decision, units: number, elapsedMs: number): Correction[] {
  const byUnits = new Map<number, number[]>()
  decision.verdicts.forEach((verdict, place) => {
    const back = Math.min(units, stillCounted(verdict, decision.cost, elapsedMs))
    if (back > 0) byUnits.set(back, [...(byUnits.get(back) ?? []), place])
  })
  return [...byUnits].map(([units, places]) => ({ units, places }))
}

/** How many units of a decision still count under one limit: refunding more would give back units that others have spent since. */
function stillCounted(verdict: Verdict, cost: number, elapsedMs: number): number {
  const { limit, resetAfterMs } = verdict
  const leftMs = resetAfterMs - elapsedMs
  if (leftMs <= 0) return 0
  return algorithmOf(limit.algorithm).inPlace.stillCounted?.(limit, cost, leftMs) ?? cost
}
