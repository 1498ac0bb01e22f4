import { type Clock, systemClock } from '../../core/clock.js'
import { PolicyError, shown } from '../../core/errors.js'
import { checkOptions, type OptionNames } from '../../core/option-names.js'

/** Options of a `MemoryStore`. */
export interface MemoryStoreOptions {
  /** Default: the system clock. */
  clock?: Clock
  /**
   * Most stored keys and blocks, each counted once per limit; integer ≥ 1, default 1 000 000. A full store removes a key that is first as if
   * never used; keys that are denied now only when all are, the one whose denial ends first. To find it, at
   * most 512 keys are examined. A key longer than 200 characters is stored as a hash, so that memory is bounded in bytes as well.
   */
  maxKeys?: number
}

const OPTIONS: OptionNames<MemoryStoreOptions> = { clock: true, maxKeys: true }

/** The options, checked and with their defaults. Throws `PolicyError` for options that mean nothing. */
export function parseMemoryStoreOptions(options: MemoryStoreOptions): Required<MemoryStoreOptions> {
  checkOptions('MemoryStore', options, OPTIONS, '{ maxKeys: 100_000 }')
  const { clock = systemClock, maxKeys = 1_000_000 } = options
  if (typeof clock?.now !== 'function') {
    throw new PolicyError(`MemoryStore: clock ${shown(clock)}: expected an object with now(), like new ManualClock()`)
  }
  if (!(Number.isSafeInteger(maxKeys) && maxKeys >= 1)) {
    throw new PolicyError(`MemoryStore: maxKeys ${shown(maxKeys)}: expected an integer ≥ 1, like 1_000_000`)
  }
  return { clock, maxKeys }
}
