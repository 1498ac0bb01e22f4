import type { Clock } from '../../core/clock.js'
import { PolicyError, shown } from '../../core/errors.js'
import { checkOptions, type OptionNames } from '../../core/option-names.js'
import { type LeaseOptions, type LeaseSettings, parseLeases } from './leases/lease-options.js'

/** Options of a `RedisStore`. */
export interface RedisStoreOptions {
  /** What every key begins with; default 'spillway'. */
  prefix?: string
  /** Default: the server's TIME. A clock given here is for tests and simulation. */
  clock?: Clock
  /** Most decisions in one script call; integer ≥ 1, default 128. Where several limits are decided together it is fewer: about 1 ms of work. */
  maxBatch?: number
  /** On a cluster: the number of hash tags that keys are spread over, evenly over the slots. Integer 1 to 1024, default 64. */
  tags?: number
  /**
   * Whether processes tell each other of every refund, reset, block, unblock and settlement that gives back, so that a denial which one
   * of them remembers ends in all within a second. Default true. It takes one more connection a process, open while denials are
   * remembered. false: a remembered denial ends when its `retryAfterMs` is over. A sentinel of node-redis cannot listen: given true
   * for one, the store is refused; by default it is as false.
   */
  shareResets?: boolean
  /**
   * Default false. true: a process buys units of a busy key in advance and spends them without asking Redis. Never over the limit, on any number of
   * processes, through crashes and pauses. Keys that are not busy, and limits too small to divide, are decided by Redis as before. Not for 'leaky-bucket'
   * (with `{ … }`: PolicyError when a limiter with such a limit is built; with true: decided as before). A denial may come while other processes hold
   * units unspent.
   */
  leases?: boolean | LeaseOptions
}

/** The options, checked and with their defaults. */
interface RedisStoreSettings {
  readonly prefix: string
  readonly clock: Clock | undefined
  readonly maxBatch: number
  readonly tags: number
  /** Undefined: as far as the client can. */
  readonly shareResets: boolean | undefined
  /** Undefined: nothing is leased. */
  readonly leases: LeaseSettings | undefined
}

const OPTIONS: OptionNames<RedisStoreOptions> = {
  prefix: true,
  clock: true,
  maxBatch: true,
  tags: true,
  shareResets: true,
  leases: true,
}
const MOST_TAGS = 1024

/** Throws `PolicyError` for options that mean nothing. */
export function parseRedisStoreOptions(options: RedisStoreOptions): RedisStoreSettings {
  checkOptions('RedisStore', options, OPTIONS, '{ prefix: "app" }')
  const { prefix = 'spillway', clock, maxBatch = 128, tags = 64, shareResets, leases } = options
  if (typeof prefix !== 'string' || prefix === '') {
    throw new PolicyError(`RedisStore: prefix ${shown(prefix)}: expected a text that is not empty, like "spillway"`)
  }
  if (clock !== undefined && typeof clock?.now !== 'function') {
    throw new PolicyError(`RedisStore: clock ${shown(clock)}: expected an object with now(), like new ManualClock()`)
  }
  if (!(Number.isSafeInteger(maxBatch) && maxBatch >= 1)) {
    throw new PolicyError(`RedisStore: maxBatch ${shown(maxBatch)}: expected an integer ≥ 1, like 128`)
  }
  if (!(Number.isSafeInteger(tags) && tags >= 1 && tags <= MOST_TAGS)) {
    throw new PolicyError(`RedisStore: tags ${shown(tags)}: expected an integer from 1 to ${MOST_TAGS}, like 64`)
  }
  if (shareResets !== undefined && typeof shareResets !== 'boolean') {
    throw new PolicyError(`RedisStore: shareResets ${shown(shareResets)}: expected true or false`)
  }
  return { prefix, clock, maxBatch, tags, shareResets, leases: parseLeases(leases) }
}
