import type { Clock } from '../../core/clock.js'
import { type Duration, parseDurationOrZero } from '../../core/duration.js'
import { PolicyError, shown } from '../../core/errors.js'
import { checkOptions, type OptionNames } from '../../core/option-names.js'
import { type LeaseOptions, type LeaseSettings, parseLeases } from './leases/lease-options.js'

/** Options of a `RedisStore`. */
export interface RedisStoreOptions {
  /** The beginning of every key; default 'spillway'. */
  prefix?: string
  /** Default: the server's TIME. Pass a clock only in tests and simulations. */
  clock?: Clock
  /** Most decisions in one script call; integer ≥ 1, default 128. Policies with several limits use fewer: about 1 ms of work. */
  maxBatch?: number
  /** On a cluster: the number of hash tags over which the keys are spread, evenly over the slots. Integer 1 to 1024, default 64. */
  tags?: number
  /**
   * Whether processes tell each other of every refund, reset, block, unblock and settlement that gives back, so that a denial that one process
   * remembers ends in all processes within a second. Default true. It takes one more connection per process, open while denials are
   * remembered. false: a remembered denial ends when its `retryAfterMs` is over. A sentinel client of node-redis cannot subscribe: the default
   * is then false, and true throws `PolicyError`.
   */
  shareResets?: boolean
  /**
   * Default false. true: a process buys units of a busy key in advance and spends them without asking Redis. The limit is never exceeded, with any number of
   * processes, through crashes and pauses. Redis decides keys that are not busy, and limits too small to divide, as before. Not for 'leaky-bucket'
   * (with `{ … }`: `PolicyError` when a limiter with such a limit is built; with true: Redis decides). A request may be denied while other processes hold
   * unspent units.
   */
  leases?: boolean | LeaseOptions
  /**
   * Default '1s'. Until Redis has answered this process for the first time, a decision may take this long instead of its deadline (connecting, loading the
   * script), so that a process that has just started counts where the others do. A connection that is refused, or was closed, ends this at once. 0, and anything
   * below the deadline: the deadline from the start.
   */
  connectDeadline?: Duration
}

/** The options, checked and with their defaults. */
interface RedisStoreSettings {
  readonly prefix: string
  readonly clock: Clock | undefined
  readonly maxBatch: number
  readonly tags: number
  /** Undefined: true if the client can subscribe. */
  readonly shareResets: boolean | undefined
  /** Undefined: no leases. */
  readonly leases: LeaseSettings | undefined
  readonly connectDeadlineMs: number
}

const OPTIONS: OptionNames<RedisStoreOptions> = {
  prefix: true,
  clock: true,
  maxBatch: true,
  tags: true,
  shareResets: true,
  leases: true,
  connectDeadline: true,
}
const MOST_TAGS = 1024

/** Throws `PolicyError` for options that mean nothing. */
export function parseRedisStoreOptions(options: RedisStoreOptions): RedisStoreSettings {
  checkOptions('RedisStore', options, OPTIONS, '{ prefix: "app" }')
  const { prefix = 'spillway', clock, maxBatch = 128, tags = 64, shareResets, leases, connectDeadline = '1s' } = options
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
  return {
    prefix,
    clock,
    maxBatch,
    tags,
    shareResets,
    leases: parseLeases(leases),
    connectDeadlineMs: parseDurationOrZero(connectDeadline, 'RedisStore: connectDeadline'),
  }
}
