import { type Duration, parseOption } from '../../../core/duration.js'
import { PolicyError, shown } from '../../../core/errors.js'
import { checkOptions, type OptionNames } from '../../../core/option-names.js'

/** Options for buying units of busy keys in advance. */
export interface LeaseOptions {
  /**
   * How long a process may spend its units: whole ms or text like '50ms'; more than 0, at most 1m. Default: a twentieth of the window (sliding window: a fiftieth),
   * at least 20 ms, at most 1 s. Redis decides limits whose rate gives more than a tenth of their burst in that time.
   */
  ttl?: Duration
}

/** The option `leases`, checked. */
export interface LeaseSettings {
  /** Undefined: derived from the window. */
  readonly ttlMs: number | undefined
  /** Whether a limit that cannot be leased is an error. */
  readonly strict: boolean
}

const NAMES: OptionNames<LeaseOptions> = { ttl: true }

/** Undefined if leases are off. Throws `PolicyError`. */
export function parseLeases(leases: boolean | LeaseOptions | undefined): LeaseSettings | undefined {
  if (leases === undefined || leases === false) return undefined
  if (leases === true) return { ttlMs: undefined, strict: false }
  if (typeof leases !== 'object' || leases === null || Array.isArray(leases)) {
    throw new PolicyError(`RedisStore: leases ${shown(leases)}: expected true, false or { ttl: "50ms" }`)
  }
  checkOptions('RedisStore: leases', leases, NAMES, '{ ttl: "50ms" }')
  const ttlMs = leases.ttl === undefined ? undefined : parseOption(leases.ttl, 'RedisStore: leases.ttl')
  if (ttlMs !== undefined && ttlMs > LONGEST_TTL_MS) {
    throw new PolicyError(`RedisStore: leases.ttl ${shown(leases.ttl)}: expected at most 1m, like "50ms"`)
  }
  return { ttlMs, strict: true }
}

const LONGEST_TTL_MS = 60_000
