import type { Decision, Verdict } from '../core/decision.js'

/** Units to charge the limits at some places of a decision; negative to give back. */
export interface Correction {
  readonly units: number
  readonly places: readonly number[]
}

/** What makes a decision that was made `elapsedMs` ago have cost `actualCost`. */
export function corrections(decision: Decision, actualCost: number, elapsedMs: number): Correction[] {
  const units = actualCost - decision.cost
  const everywhere = decision.verdicts.map((_, place) => place)
  if (units > 0) return [{ units, places: everywhere }]
  const byUnits = new Map<number, number[]>()
  for (const place of everywhere) {
    const back = Math.min(-units, stillCounted(decision.verdicts[place], decision.cost, elapsedMs))
    if (back > 0) byUnits.set(back, [...(byUnits.get(back) ?? []), place])
  }
  return [...byUnits].map(([back, places]) => ({ units: -back, places }))
}

/**
 * How many of the units that a decision spent one of its limits still counts: what may at most be given back. More would hand
 * out units that others have spent since.
 */
function stillCounted(verdict: Verdict, cost: number, elapsedMs: number): number {
  const { limit, resetAfterMs } = verdict
  const leftMs = resetAfterMs - elapsedMs
  if (leftMs <= 0) return 0
  if (limit.algorithm !== 'token-bucket' && limit.algorithm !== 'leaky-bucket') return cost
  // A bucket regains its oldest units first, and this decision's were the newest.
  return Math.min(cost, Math.floor((leftMs * limit.quota) / limit.windowMs))
}
