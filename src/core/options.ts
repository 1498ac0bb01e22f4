import { PolicyError, shown } from './errors.js'

/** What to write here instead of an option of another package: the option, and a clause that says what it means. */
type Hint = readonly [option: string, meaning: string]

const POLICY: Hint = ['policy', 'policy has the quota and its time, like "100/1m"']
const WINDOW: Hint = ['windowMs', 'windowMs is the time of limit; or policy has both, like "100/1m"']
const PERMITS: Hint = ['permits', 'permits is how many may be inside at once']
const KEY: Hint = [
  'key',
  'key is a function that gives the text by which requests count together, like req => req.user?.id',
]
const STORE: Hint = ['store', 'store is where counts live, like new RedisStore(client)']
const CLIENT: Hint = ['client', 'client is the Redis client']
const FAILURE: Hint = [
  'onStoreFailure',
  "onStoreFailure says what happens while the store fails: 'local', 'open' or 'closed'",
]
const HANDLER: Hint = ['handler', 'handler answers a refused request; an observer is told of every decision']
const OBSERVER: Hint = ['observer', 'observer is told of every decision']
const OUTCOME: Hint = [
  'settle',
  'settle says after the response what a request costs, like { cost: 0, settle: (req, res) => (res.statusCode === 401 ? 1 : 0) }',
]
const DECISION: Hint = [
  'handler',
  "the decision is always stored as rateLimit: req.rateLimit, ctx.state.rateLimit in Koa, c.get('rateLimit') in Hono",
]
const HEADERS: Hint = [
  'headers',
  "headers lists the forms of the header fields, like ['draft-8', 'legacy'], or [] for none",
]
const MESSAGE: Hint = ['message', 'message is the body of a refusal']
const SKIP: Hint = ['skip', 'skip is a function that says which requests are not limited']
const ALLOW: Hint = ['allow', 'allow lists addresses that are not limited; skip is a function']
const DENY: Hint = ['deny', 'deny lists addresses that are always refused']
const BLOCK: Hint = ['block', "block refuses a key that is denied too often for longer, like { after: 10, for: '10m' }"]
const PROXIES: Hint = [
  'proxies',
  'proxies is how many proxies stand in front of the service, like 1, or a list of their addresses',
]
const SLOW_DOWN: Hint = ['slowDown', "slowDown is an object, like { after: 50, by: '100ms', max: '2s' }"]
const STATUS: Hint = ['statusCode', 'statusCode is the status of a refusal']
const DENIALS: Hint = ['denyCache', 'denyCache is how many refused keys this process remembers']
const SHADOW: Hint = ['shadow', 'shadow: true decides, and lets every request pass']
const DEADLINE: Hint = ['deadline', 'deadline is how long a decision may take']
const NAME: Hint = ['name', 'name tells the counts of limiters on one store apart']
const EVENLY: Hint = [
  'policy',
  'policy names the algorithm too, like "10/1s leaky-bucket", which lets requests pass evenly',
]
const MAX_KEYS: Hint = ['store', 'store: new MemoryStore({ maxKeys: 10_000 }) bounds the memory']
const CONSUMED: Hint = ['policy', 'the key is given to each call, like consume(key)']

/**
 * Names of options of express-rate-limit, express-slow-down, @fastify/rate-limit, koa-ratelimit, hono-rate-limiter, @nestjs/throttler, rate-limiter-flexible,
 * @upstash/ratelimit and others. Of the hints, the first counts whose option the called function has.
 */
const FOREIGN: Readonly<Record<string, readonly Hint[]>> = {
  max: [POLICY, PERMITS],
  limit: [POLICY, PERMITS],
  quota: [POLICY],
  points: [POLICY, PERMITS],
  tokens: [POLICY],
  rate: [POLICY],
  requests: [POLICY],
  duration: [WINDOW, POLICY],
  interval: [WINDOW, POLICY],
  window: [WINDOW, POLICY],
  windowMs: [POLICY],
  timeWindow: [WINDOW, POLICY],
  ttl: [WINDOW, POLICY],
  algorithm: [POLICY],
  throttlers: [['policy', 'policy may have several limits, decided together, like "3/1s; 100/1m"']],
  concurrency: [PERMITS],
  maxConcurrent: [PERMITS],
  execEvenly: [EVENLY],
  execEvenlyMinDelayMs: [EVENLY],
  permits: [['policy', 'that is an option of concurrencyLimit; policy is how many in a time, like "100/1m"']],
  key: [CONSUMED],
  keyGenerator: [KEY, CONSUMED],
  id: [KEY],
  identifier: [KEY],
  getTracker: [KEY],
  generateKey: [KEY],
  client: [STORE],
  redis: [CLIENT, STORE],
  db: [CLIENT, STORE],
  driver: [STORE],
  storage: [STORE],
  storeClient: [CLIENT, STORE],
  sendCommand: [STORE],
  cache: [MAX_KEYS],
  maxKeys: [MAX_KEYS],
  ephemeralCache: [DENIALS],
  inMemoryBlockOnConsumed: [DENIALS],
  inmemoryBlockOnConsumed: [DENIALS],
  nameSpace: [NAME],
  namespace: [NAME],
  passOnStoreError: [FAILURE],
  skipOnError: [FAILURE],
  insuranceLimiter: [FAILURE],
  timeout: [DEADLINE],
  onLimitReached: [HANDLER],
  onLimited: [HANDLER],
  onExceeded: [HANDLER],
  onExceeding: [OBSERVER],
  onBanReach: [HANDLER],
  throw: [HANDLER],
  analytics: [OBSERVER],
  skipSuccessfulRequests: [OUTCOME],
  skipFailedRequests: [OUTCOME],
  requestWasSuccessful: [OUTCOME],
  requestPropertyName: [DECISION],
  standardHeaders: [HEADERS],
  legacyHeaders: [HEADERS],
  addHeaders: [HEADERS],
  addHeadersOnExceeding: [HEADERS],
  setHeaders: [HEADERS],
  disableHeader: [HEADERS],
  enableDraftSpec: [HEADERS],
  errorMessage: [MESSAGE],
  errorResponseBuilder: [MESSAGE],
  status: [STATUS],
  skipIf: [SKIP],
  ignoreUserAgents: [SKIP],
  whitelist: [ALLOW],
  allowList: [ALLOW],
  blacklist: [DENY],
  denyList: [DENY],
  ban: [BLOCK],
  blockDuration: [BLOCK],
  continueExceeding: [BLOCK],
  exponentialBackoff: [BLOCK],
  trustProxy: [PROXIES],
  trustProxies: [PROXIES],
  delayMs: [SLOW_DOWN],
  delayAfter: [SLOW_DOWN],
  maxDelayMs: [SLOW_DOWN],
  dryRun: [SHADOW],
  validate: [
    ['headers', 'there is nothing to switch off: a wrong option is an error, a wrong setting causes one warning'],
  ],
}

/** What to write instead of an option of another package, if the called function has such an option. */
function foreignHint(option: string, names: readonly string[]): string | undefined {
  if (!Object.hasOwn(FOREIGN, option)) return undefined
  return FOREIGN[option].find(([own]) => names.includes(own))?.[1]
}

/** The names of the options of a type: the compiler checks that the list is complete. */
export type OptionNames<Options> = Readonly<Record<keyof Options & string, true>>

const STORE_PREFIX = 'the prefix of keys is an option of the store, like new RedisStore(client, { prefix: "app" })'

/**
 * Throws `PolicyError` if `options` is not an object, or has an option that is not in `names`; the error suggests the name that
 * was most likely meant.
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

/** The most likely intended name: one that differs only in case or in up to a third of its letters, or that the given one begins. */
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
 * Checks of single values. Each throws `PolicyError` with what was given, what was expected, and an example. `what` names the option, like 'RedisStore: maxBatch'.
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
