import { CostError, shown } from './errors.js'

/** Throws `CostError` unless the cost is an integer ≥ 0. */
export function checkCost(cost: number): void {
  if (Number.isSafeInteger(cost) && cost >= 0) return
  throw wrongCost(cost)
}

function wrongCost(cost: unknown): CostError {
  return new CostError(`cost ${shown(cost)}: expected an integer ≥ 0, like 1`)
}
