import { PolicyError, shown } from './errors.js'

/**
 * Options of express-rate-limit, express-slow-down, @fastify/rate-limit, koa-ratelimit, hono-rate-limiter,
 * @nestjs/throttler, rate-limiter-flexible,
 * @upstash/ratelimit and others: [what to write here instead, what that means, their names]. The first row counts whose
 *   option the called function has.
 */
const FOREIGN: ReadonlyArray<readonly [option: string, meaning: string, names: string]> = [
  [
    'windowMs',
    'windowMs is the time of limit; or policy has both, like "100/1m"',
    'duration interval window timeWindow ttl',
  ],
  ['policy', 'policy may have several limits, decided together, like "3/1s; 100/1m"', 'throttlers'],
  [
    'policy',
    'policy names the algorithm too, like "10/1s leaky-bucket", which lets requests pass evenly',
    'execEvenly execEvenlyMinDelayMs',
  ],
  ['policy', 'that is an option of concurrencyLimit; policy is how many in a time, like "100/1m"', 'permits'],
  [
    'policy',
    'policy has the quota and its time, like "100/1m"',
    'max limit quota points tokens rate requests duration interval window windowMs timeWindow ttl algorithm',
  ],
  ['permits', 'permits is how many may be inside at once', 'max limit points concurrency maxConcurrent'],
  [
    'key',
    'key is a function that gives the text by which requests count together, like req => req.user?.id',
    'keyGenerator id identifier getTracker generateKey',
  ],
  ['policy', 'the key is given to each call, like consume(key)', 'key keyGenerator'],
  ['client', 'client is the Redis client', 'redis db storeClient'],
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
  ['name', 'name tells the counts of limiters on one store apart', 'nameSpace namespace'],
  [
    'onStoreFailure',
    "onStoreFailure says what happens while the store fails: 'local', 'open' or 'closed'",
    'passOnStoreError skipOnError insuranceLimiter',
  ],
  ['deadline', 'deadline is how long a decision may take', 'timeout'],
  [
    'handler',
    'handler answers a refused request; an observer is told of every decision',
    'onLimitReached onLimited onExceeded onBanReach throw',
  ],
  ['observer', 'observer is told of every decision', 'onExceeding analytics'],
  [
    'settle',
    'settle says after the response what a request costs, like { cost: 0, settle: (req, res) => ' +
      '(res.statusCode === 401 ? 1 : 0) }',
    'skipSuccessfulRequests skipFailedRequests requestWasSuccessful',
  ],
  [
    'handler',
    "the decision is always stored as rateLimit: req.rateLimit, ctx.state.rateLimit in Koa, c.get('rateLimit') in Hono",
    'requestPropertyName',
  ],
  [
    'headers',
    "headers lists the forms of the header fields, like ['draft-8', 'legacy'], or [] for none",
    'standardHeaders legacyHeaders addHeaders addHeadersOnExceeding setHeaders disableHeader enableDraftSpec',
  ],
  ['message', 'message is the body of a refusal', 'errorMessage errorResponseBuilder'],
  ['statusCode', 'statusCode is the status of a refusal', 'status'],
  ['skip', 'skip is a function that says which requests are not limited', 'skipIf ignoreUserAgents'],
  ['allow', 'allow lists addresses that are not limited; skip is a function', 'whitelist allowList'],
  ['deny', 'deny lists addresses that are always refused', 'blacklist denyList'],
  [
    'block',
    "block refuses a key that is denied too often for longer, like { after: 10, for: '10m' }",
    'ban blockDuration continueExceeding exponentialBackoff',
  ],
  [
    'proxies',
    'proxies is how many proxies stand in front of the service, like 1, or a list of their addresses',
    'trustProxy trustProxies',
  ],
  ['slowDown', "slowDown is an object, like { after: 50, by: '100ms', max: '2s' }", 'delayMs delayAfter maxDelayMs'],
  ['shadow', 'shadow: true decides, and lets every request pass', 'dryRun'],
  [
    'headers',
    'there is nothing to switch off: a wrong option is an error, a wrong setting causes one warning',
    'validate',
  ],
]

/** What to write instead of an option of another package, if the called function has such an option. */
function foreignHint(option: string, own: readonly string[]): string | undefined {
  return FOREIGN.find(([name, , names]) => own.includes(name) && names.split(' ').includes(option))?.[1]
}

/** The names of the options of a type: the compiler checks that the list is complete. */
export type OptionNames<Options> = Readonly<Record<keyof Options & string, true>>

const STORE_PREFIX = 'the prefix of keys is an option of the store, like new RedisStore(client, { prefix: "app" })'

/**
 * Throws `PolicyError` if `options` is not an object, or has an option that is not in `names`; the error suggests the
 * name that was most likely meant.
 *
 * `owner` begins the message, like 'RedisStore' or 'acquire'; `example` ends it, like '{ prefix: "app" }'.
 */
export function checkOptions(
  owner: string,
  options: unknown,
  names: Readonly<Record<string, true>>,
  example: string,
): void {
  checkObject(owner, options, example)
  for (const option of Object.keys(options)) {
    if (!Object.hasOwn(names, option)) {
      throw new PolicyError(`${owner}: unknown option ${shown(option)}: ${hintFor(option, Object.keys(names))}`)
    }
  }
}

/** Throws `PolicyError` unless `options` is an object; its names are not checked. */
export function checkObject(owner: string, options: unknown, example: string): asserts options is object {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new PolicyError(`${owner}: given ${shown(options)}, expected options like ${example}`)
  }
}

function hintFor(option: string, names: readonly string[]): string {
  if (/prefix$/i.test(option)) return names.includes('prefix') ? 'did you mean prefix?' : STORE_PREFIX
  const foreign = foreignHint(option, names)
  if (foreign !== undefined) return foreign
  const name = similarName(option, names)
  if (name !== undefined) return `did you mean ${name}?`
  return names.length > 0 ? `expected ${names.join(', ')}` : 'expected none'
}

/**
 * The most likely intended name: one that differs only in case or in up to a third of its letters, or that the given
 * one begins.
 */
function similarName(given: string, names: readonly string[]): string | undefined {
  const text = given.toLowerCase()
  let similar: string | undefined
  let least = Number.POSITIVE_INFINITY
  for (const name of names) {
    const distance = editDistance(text, name.toLowerCase())
    if (distance < least && distance <= Math.max(text.length, name.length) / 3) {
      similar = name
      least = distance
    }
  }
  // 'dead' for deadline, 'maximum' for max.
  return similar ?? names.find(name => (text.length > 3 && name.toLowerCase().startsWith(text)) || isLonger(text, name))
}

const ABBREVIATIONS = { max: 'maximum', min: 'minimum' }

function isLonger(text: string, name: string): boolean {
  return ABBREVIATIONS[name as keyof typeof ABBREVIATIONS] === text
}

/** The number of letters to insert, remove or change, or of neighbours to swap. */
function editDistance(a: string, b: string): number {
  let [before, row] = [[] as number[], Array.from({ length: b.length + 1 }, (_, j) => j)]
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1))
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (swapped) next[j] = Math.min(next[j], before[j - 2] + 1)
    }
    before = row
    row = next
  }
  return row[b.length]
}

/*
 * Checks of single values. Each throws `PolicyError` with what was given, what was expected, and an example. `what`
 * names the option, like 'RedisStore: maxBatch'.
 */

/** Without `max`: from `min` up. */
export function checkInteger(value: unknown, what: string, example: number | string, min: number, max?: number): void {
  if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= (max ?? Infinity)) return
  const range = max === undefined ? `≥ ${min}` : `from ${min} to ${max}`
  throw new PolicyError(`${what} ${shown(value)}: expected an integer ${range}, like ${example}`)
}

export function checkFlag(value: unknown, what: string): void {
  if (typeof value !== 'boolean') throw new PolicyError(`${what} ${shown(value)}: expected true or false`)
}

export function checkText(value: unknown, what: string, example: string): void {
  if (typeof value === 'string' && value !== '') return
  throw new PolicyError(`${what} ${shown(value)}: expected a text that is not empty, like "${example}"`)
}

export function checkFunction(value: unknown, what: string, example: string): void {
  if (typeof value === 'function') return
  throw new PolicyError(`${what} ${shown(value)}: expected a function, like ${example}`)
}

export function checkClock(clock: unknown, what: string): void {
  if (typeof (clock as { now?: unknown } | undefined)?.now === 'function') return
  throw new PolicyError(`${what} ${shown(clock)}: expected an object with now(), like new ManualClock()`)
}
