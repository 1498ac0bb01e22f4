import { CostError, shown } from './errors.js'

/** Throws `CostError` unless the cost is an integer ≥ 0. */
export function checkCost(cost: number): void {
  if (!isCost(cost)) throw wrongCost(cost)
}

export function isCost(cost: number): boolean {
  return Number.isSafeInteger(cost) && cost >= 0
}

function wrongCost(cost: unknown): CostError {
  return new CostError(`cost ${shown(cost)}: expected an integer ≥ 0, like 1`)
}
