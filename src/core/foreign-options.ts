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
export function foreignHint(option: string, names: readonly string[]): string | undefined {
  if (!Object.hasOwn(FOREIGN, option)) return undefined
  return FOREIGN[option].find(([own]) => names.includes(own))?.[1]
}
