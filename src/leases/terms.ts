import { type Duration, parseOption } from '../limiter/core/duration.js'
import { PolicyError, shown } from '../limiter/core/errors.js'
import type { Limit } from '../limiter/core/limit.js'
import { checkOptions, type OptionNames } from '../limiter/core/options.js'
import { leaseArithmeticOf } from './lease-arithmetic.js'

/** Options for buying units of busy keys in advance. */
export interface LeaseOptions {
  /**
   * How long a process may spend its units, also after the key was reset or blocked by another process: whole ms or
   * text like '50ms'; more than 0, at most 1 s. Default: a twentieth of the window (sliding window: a fiftieth), at
   * least 20 ms. Redis decides limits whose rate gives more than a tenth of their burst in that time.
   */
  ttl?: Duration
}

/** The option `leases`, checked. */
export interface LeaseSettings {
  /** Undefined: derived from the window. */
  readonly ttlMs: number | undefined
  /** Whether a limit that cannot be leased is an error. */
  readonly strict: boolean
  /** Names the store in errors. */
  readonly store: string
}

const NAMES: OptionNames<LeaseOptions> = { ttl: true }

/** Undefined if leases are off. Throws `PolicyError`. */
export function parseLeases(leases: boolean | LeaseOptions | undefined, store: string): LeaseSettings | undefined {
  if (leases === undefined || leases === false) return undefined
  if (leases === true) return { ttlMs: undefined, strict: false, store }
  if (typeof leases !== 'object' || leases === null || Array.isArray(leases)) {
    throw new PolicyError(`${store}: leases ${shown(leases)}: expected true, false or { ttl: "50ms" }`)
  }
  checkOptions(`${store}: leases`, leases, NAMES, '{ ttl: "50ms" }')
  const ttlMs = leases.ttl === undefined ? undefined : parseOption(leases.ttl, `${store}: leases.ttl`)
  if (ttlMs !== undefined && ttlMs > LONGEST_MS) {
    throw new PolicyError(`${store}: leases.ttl ${shown(leases.ttl)}: expected at most 1s, like "50ms"`)
  }
  return { ttlMs, strict: true, store }
}

/** A key is leased if this many hits are expected in the life of a lease. */
export const HITS_PER_TTL = 8
const SHORTEST_MS = 20
const LONGEST_MS = 1000
/** The largest part of the burst that the rate may give in the life of a lease. */
const MOST_OF_BURST = 0.1

/** The terms for leasing units under some limits together. */
export interface LeaseTerms {
  readonly limits: readonly Limit[]
  /** The longest life of a lease. */
  readonly ttlMs: number
  /** Redis decides larger costs. */
  readonly largestCost: number
}

/**
 * Undefined if Redis decides these limits. Throws `PolicyError` for a leaky bucket if leases were requested explicitly.
 */
export function leaseTerms(
  limits: readonly Limit[],
  { ttlMs: given, strict, store }: LeaseSettings,
): LeaseTerms | undefined {
  const unleased = limits.find(limit => leaseArithmeticOf(limit) === undefined)
  if (unleased !== undefined) {
    if (!strict) return undefined
    throw new PolicyError(
      `${store}: leases with limit ${shown(unleased.name)}: a leaky bucket can not be leased, because each ` +
        'request waits for the one before; expected another algorithm, or leases: true, which leaves this limit ' +
        'to the store',
    )
  }
  // Only Redis knows how long a calendar window lasts.
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

/**
 * Units of a lease that may still be given back `ageMs` after the order: a bucket may have sold again what it has
 * regained since.
 */
export function returnable({ limits }: LeaseTerms, units: number, ageMs: number): number {
  return Math.min(...limits.map(limit => leaseArithmeticOf(limit)!.returned(limit, units, ageMs)))
}
