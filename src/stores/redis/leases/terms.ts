import { PolicyError, shown } from '../../../core/errors.js'
import type { Limit } from '../../../core/limit.js'
import type { LeaseSettings } from './lease-options.js'

/** A key is leased if it is expected to be used so often while a lease lives. */
export const HITS_PER_TTL = 8
const SHORTEST_MS = 20
const LONGEST_MS = 1000
/** Most of the burst that the rate may give while a lease lives. */
const MOST_OF_BURST = 0.1

/** On what terms units are leased under some limits together. */
export interface LeaseTerms {
  readonly limits: readonly Limit[]
  /** How long a lease lasts at most. */
  readonly ttlMs: number
  /** A larger cost is decided by Redis. */
  readonly largestCost: number
}

/** Undefined for limits that are decided by Redis. Throws `PolicyError` for a leaky bucket where leases were asked for in particular. */
export function leaseTerms(limits: readonly Limit[], { ttlMs: given, strict }: LeaseSettings): LeaseTerms | undefined {
  const leaky = limits.find(({ algorithm }) => algorithm === 'leaky-bucket')
  if (leaky !== undefined) {
    if (!strict) return undefined
    throw new PolicyError(
      `RedisStore: leases with limit ${shown(leaky.name)}: a leaky bucket can not be leased, because each request waits for the one before; ` +
        'expected another algorithm, or leases: true, which leaves this limit to Redis',
    )
  }
  // How long one of these lasts only Redis knows.
  if (limits.some(({ calendar }) => calendar !== undefined)) return undefined
  const ttlMs = Math.min(...limits.map(limit => given ?? defaultTtl(limit)))
  for (const { quota, windowMs, burst } of limits) {
    if (quota === 0 || quota * ttlMs > MOST_OF_BURST * burst * windowMs) return undefined
  }
  const largestCost = Math.min(
    ...limits.map(({ quota, windowMs, burst }) => burst - Math.ceil((quota * ttlMs) / windowMs)),
  )
  return { limits, ttlMs, largestCost }
}

function defaultTtl({ algorithm, windowMs }: Limit): number {
  const part = windowMs / (algorithm === 'sliding-window' ? 50 : 20)
  return Math.floor(Math.min(LONGEST_MS, Math.max(SHORTEST_MS, part)))
}

/** Units of a lease that come back `ageMs` after it was asked for: a bucket may have sold again what it has regained since. */
export function returnable({ limits }: LeaseTerms, units: number, ageMs: number): number {
  let most = units
  for (const { algorithm, quota, windowMs } of limits) {
    if (algorithm === 'token-bucket') most = Math.min(most, Math.floor((units * windowMs - quota * ageMs) / windowMs))
  }
  return Math.max(0, most)
}
