import { type Duration, parseOption } from './core/duration.js'
import { PolicyError, shown } from './core/errors.js'
import { type Policy, type PolicyInput, parsePolicy } from './core/limit.js'
import { type Observer, parseObserver } from './core/observer.js'
import { checkFlag, checkOptions, checkText, type ForeignNames, type OptionNames } from './core/options.js'
import { emitWarning } from './core/warnings.js'
import type { PolicyFunction } from './decider.js'
import type { StoreFailure } from './fallback.js'
import { type CallbackHitStore, countsHits, type HitStore } from './hit-store.js'
import { DEFAULT_LIMITER, type Store } from './store.js'

/** Options of a `RateLimiter`. An invalid value or an unknown name throws `PolicyError` when the limiter is built. */
export interface RateLimiterOptions {
  /**
   * The limits, decided together: text, an object, or a list of either. A function is called for each decision, with
   * the key (for a record of keys: the key that its limits share, else all of them as JSON), and returns the policy
   * synchronously. With a `name`, counts continue when it returns another policy, as long as a limit's algorithm and
   * window stay the same. Its errors reach the caller; an invalid policy is a `PolicyError`.
   */
  policy: PolicyInput | PolicyFunction
  /**
   * Default: a `MemoryStore` of its own. A store made for express-rate-limit counts one fixed window; with it, that is
   * the default algorithm and the only one.
   */
  store?: Store | HitStore | CallbackHitStore
  /**
   * Default 'default'. Counts belong to this name, to the algorithm and window of a limit (of a bucket not to the
   * window) and to a name of its own, if it has one: on one store, limiters that agree in these share their counts, and
   * what was spent stays when the quota changes. Under 'default' they also belong to the quota of a limit without a name
   * of its own. Two limits of one policy that would share a count: `PolicyError`.
   */
  name?: string
  /** Default 50 ms, more than 0: a store that has not answered by then has failed for this decision. */
  deadline?: Duration
  /** Decides when the store does not answer in time. Default `local`: this process alone. */
  onStoreFailure?: StoreFailure
  /**
   * (0, 1], default 1: the part of the quota that one process grants alone while the store fails, rounded down, at
   * least 1. For n processes 1 / n is computed exactly.
   */
  localShare?: number
  /**
   * A key that the store denied is refused in the process until its `retryAfterMs` ends, for 1 s at most: what other
   * processes change counts here within a second. Default true, which remembers 10 000 keys; a number ≥ 0 is the number
   * of keys; 0 and false remember none.
   */
  denyCache?: boolean | number
  /** Default false. true: decide and report, but always allow. The verdicts show what the decision would have been. */
  shadow?: boolean
  /**
   * Default: none. Receives decisions, failures of the store and the state of its breaker, like `prometheusObserver()`.
   * Without an observer, an outage of the store causes process warnings (SPILLWAY_STORE).
   */
  observer?: Observer
}

export const LIMITER_OPTIONS: OptionNames<RateLimiterOptions> = {
  policy: true,
  store: true,
  name: true,
  deadline: true,
  onStoreFailure: true,
  localShare: true,
  denyCache: true,
  shadow: true,
  observer: true,
}

/** Names that other limiters have for these options. */
export const LIMITER_NEWCOMERS: ForeignNames = [
  ['policy', 'policy may have several limits, decided together, like "3/1s; 100/1m"', 'throttlers'],
  [
    'policy',
    'policy names the algorithm too, like "10/1s leaky-bucket", which lets requests pass evenly',
    'execEvenly execEvenlyMinDelayMs',
  ],
  [
    'policy',
    'policy has the quota and its time, like "100/1m"',
    'max limit quota points tokens rate requests duration interval window windowMs timeWindow ttl algorithm',
  ],
  ['policy', 'the key is given to each call, like consume(key)', 'key keyGenerator'],
  ['store', 'store: new MemoryStore({ maxKeys: 10_000 }) bounds the memory', 'cache maxKeys'],
  [
    'store',
    'store is where counts live, like new RedisStore(client)',
    'client redis db driver storage storeClient sendCommand',
  ],
  [
    'denyCache',
    'denyCache is how many refused keys this process remembers',
    'ephemeralCache inMemoryBlockOnConsumed inmemoryBlockOnConsumed',
  ],
  ['store', 'the clock is an option of the store, like new MemoryStore({ clock })', 'clock'],
  ['name', 'name tells the counts of limiters on one store apart', 'nameSpace namespace'],
  [
    'onStoreFailure',
    "onStoreFailure says what happens while the store fails: 'local', 'open' or 'closed'",
    'passOnStoreError skipOnError insuranceLimiter failOpen failClosed',
  ],
  ['deadline', 'deadline is how long a decision may take', 'timeout'],
  ['observer', 'observer is told of every decision', 'onExceeding analytics'],
  ['shadow', 'shadow: true decides, and lets every request pass', 'dryRun'],
]

const FAILURES: readonly unknown[] = ['local', 'open', 'closed']

/** The options of a `RateLimiter`, checked and with their defaults. Throws `PolicyError`. */
export function parseLimiterOptions(options: RateLimiterOptions) {
  checkOptions('RateLimiter', options, LIMITER_OPTIONS, '{ policy: "100/1m" }', LIMITER_NEWCOMERS)
  const {
    store,
    name = DEFAULT_LIMITER,
    deadline = 50,
    onStoreFailure = 'local',
    localShare = 1,
    shadow = false,
  } = options
  if (options.policy === undefined) throw new PolicyError('RateLimiter: no policy given, expected one like "100/1m"')
  if (store !== undefined) checkStore(store)
  checkText(name, 'RateLimiter: name', 'login')
  checkFlag(shadow, 'RateLimiter: shadow')
  if (!FAILURES.includes(onStoreFailure)) {
    throw new PolicyError(`RateLimiter: onStoreFailure ${shown(onStoreFailure)}: expected "local", "open" or "closed"`)
  }
  if (!(typeof localShare === 'number' && localShare > 0 && localShare <= 1)) {
    throw new PolicyError(
      `RateLimiter: localShare ${shown(localShare)}: expected a number above 0 and up to 1, like 0.25 for four ` +
        'processes',
    )
  }
  return {
    policy: policyOf(options),
    store,
    name,
    deadlineMs: parseOption(deadline, 'RateLimiter: deadline'),
    onStoreFailure,
    localShare,
    denyCacheKeys: parseDenyCache(options.denyCache),
    shadow,
    observer: parseObserver(options.observer, 'RateLimiter'),
  }
}

function policyOf({ policy, store }: RateLimiterOptions): Policy | PolicyFunction {
  if (typeof policy !== 'function') {
    const limits = parsePolicy(policy, countsHits(store) ? 'fixed-window' : undefined)
    for (const given of Array.isArray(policy) ? policy : [policy]) warnOfShortWindow(given)
    return limits
  }
  if (!countsHits(store)) return policy
  throw new PolicyError(
    `RateLimiter: policy is a function, and the store ${shown(store)} is one of express-rate-limit, which ` +
      'counts one window: expected a policy like "100/1m fixed-window"',
  )
}

/** A window of fewer ms, given as a number, was most likely meant in seconds. */
const SHORT_WINDOW_MS = 1000
let warnedOfShortWindow = false

/** Warns once in a process. `given`: a limit as the user has written it. */
function warnOfShortWindow(given: unknown): void {
  const window = (given as { readonly window?: unknown } | null)?.window
  if (typeof window !== 'number' || window >= SHORT_WINDOW_MS || warnedOfShortWindow) return
  warnedOfShortWindow = true
  emitWarning(
    'SPILLWAY_WINDOW',
    `a window of ${window} is ${window} ms: write '${window}s' if seconds are meant, or '${window}ms'`,
  )
}

function parseDenyCache(denyCache: boolean | number = true): number {
  if (typeof denyCache === 'boolean') return denyCache ? 10_000 : 0
  if (Number.isSafeInteger(denyCache) && denyCache >= 0) return denyCache
  throw new PolicyError(
    `RateLimiter: denyCache ${shown(denyCache)}: expected true, false or a number of keys ≥ 0, like 10_000`,
  )
}

function checkStore(store: Store | HitStore | CallbackHitStore): void {
  if (countsHits(store)) return
  if (isLikeClient(store)) {
    throw new PolicyError('RateLimiter: store is a Redis client: expected a store over it, like new RedisStore(client)')
  }
  for (const method of ['consume', 'peek', 'refund', 'reset'] as const) {
    if (typeof (store as Store | null)?.[method] !== 'function') {
      throw new PolicyError(
        `RateLimiter: store ${shown(store)} has no ${method}(): expected a store, like new MemoryStore() or ` +
          'new RedisStore(client)',
      )
    }
  }
}

/** True if a value is probably a Redis client, of any package: for messages. */
export function isLikeClient(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const methods = value as Readonly<Record<string, unknown>>
  return ['evalsha', 'sendCommand', 'customCommand'].some(name => typeof methods[name] === 'function')
}
