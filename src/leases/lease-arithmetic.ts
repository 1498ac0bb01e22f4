import { floorDiv } from '../limiter/algorithms/algorithm.js'
import type { AlgorithmName, Limit } from '../limiter/core/limit.js'

/**
 * How units of a lease come back: a process may spend them at any moment until it ends, `ttlMs` after the sale at the
 * latest. docs/leases.md says why the limit holds all the same.
 */
interface LeaseArithmetic {
  /** When the units of a lease count as spent: the `chargedAt` of their receipt. */
  chargedAt(soldAt: number, ttlMs: number): number
  /** How many of a lease's unspent units become free if they come back `ageMs` after the sale. */
  returned(limit: Limit, units: number, ageMs: number): number
}

/** A lease ends with its window, so all its units are spent in the window to which they are charged. */
const inOneWindow: LeaseArithmetic = { chargedAt: soldAt => soldAt, returned: (_, units) => units }

const LEASABLE: Partial<Record<AlgorithmName, LeaseArithmetic>> = {
  'fixed-window': inOneWindow,
  'sliding-counter': inOneWindow,
  'sliding-window': { chargedAt: (soldAt, ttlMs) => soldAt + ttlMs, returned: (_, units) => units },
  'token-bucket': {
    chargedAt: soldAt => soldAt,
    // The bucket may have sold the units again that it has regained since the sale.
    returned({ quota, windowMs }, units, ageMs) {
      const left = units * windowMs - quota * ageMs
      return left > 0 ? Math.min(units, floorDiv(left, windowMs)) : 0
    },
  },
}

/** Undefined if units of the limit cannot be leased. */
export function leaseArithmeticOf({ algorithm }: Limit): LeaseArithmetic | undefined {
  return LEASABLE[algorithm]
}
