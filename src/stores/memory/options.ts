import { type Clock, systemClock } from '../../core/clock.js'
import { PolicyError, shown } from '../../core/errors.js'
import { checkOptions, type OptionNames } from '../../core/option-names.js'

/** Options of a `MemoryStore`. */
export interface MemoryStoreOptions {
  /** Default: the system's time. */
  clock?: Clock
  /**
   * Most keys and blocks held, each counted once per limit; integer ≥ 1, default 1 000 000. When full, keys that are soonest as if
   * never used go first. A key that is denied now goes only when all are, the one whose denial ends soonest first. To find it, at
   * most 512 keys are looked at. A key longer than 200 characters is kept by its hash, so that memory is bounded in bytes as well.
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
