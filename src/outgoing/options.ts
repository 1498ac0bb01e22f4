import { type Duration, parseDurationOrZero, parseOption } from '../limiter/core/duration.js'
import { PolicyError, shown } from '../limiter/core/errors.js'
import { type Observer, parseObserver } from '../limiter/core/observer.js'
import { checkOptions, checkText, type OptionNames } from '../limiter/core/options.js'
import type { RedisClient } from '../redis/client.js'
import { portOf } from '../redis/clients.js'
import { type CheckedBudget, nameOfRate } from './account.js'
import { MOST_PRIORITY } from './line.js'

/** Units that calls to a partner may cost in any interval: calls, tokens, whatever the partner counts. */
export interface Budget {
  /** Units in any `interval`; integer ≥ 1. */
  rate: number
  /** Length of the interval, at most ten years. */
  interval: Duration
  /**
   * Names the budget in errors, for the observer and the dashboard; unique for a partner. Default: rate and interval,
   * like '500-per-1m'.
   */
  name?: string
  /**
   * What a call costs before it is sent: an integer from 0 to `rate`, else the call rejects with `CostError`. If it
   * throws, the call rejects with that. Default: 1.
   */
  cost?: (url: URL, init?: RequestInit) => number | Promise<number>
  /**
   * What the call has really cost, as its response tells: an integer ≥ 0; undefined: as estimated. Units that were not
   * needed come back at once. More than estimated is charged even if it does not fit: later calls wait longer. The cost
   * counts until an interval after this is known. The response is a copy, whose body may be read until `settle` ends; it
   * ends with an AbortError when the caller cancels the body of the call's response, which does not wait for `settle`:
   * then the estimate stays. Only bodies that are streams of the web are copied: with a `fetch` like that of node-fetch,
   * read nothing but status and header fields. Called once for each response, also of calls that are repeated. If it
   * throws or rejects, or returns something else, the estimate stays, and a process warning (SPILLWAY_SETTLE) says so
   * once.
   */
  settle?: (response: Response, estimated: number) => number | undefined | Promise<number | undefined>
}

/**
 * The user's own limits for calls to one partner. At least one of `rate`, `concurrency`, `budgets` and `longestPause`.
 */
export interface PartnerLimits {
  /** Calls per interval; integer ≥ 1. Together with `interval`: a budget of calls. Default: no limit. */
  rate?: number
  /** Length of the interval, at most ten years. Together with `rate`. */
  interval?: Duration
  /** The most calls in flight; integer ≥ 1. Default: no limit. */
  concurrency?: number
  /**
   * Budgets beside `rate`: a call takes from all of them at once, or waits. At most 8, with that of `rate`. Default:
   * none.
   */
  budgets?: readonly Budget[]
  /**
   * Default '1h'; at most ten years. A longer pause that the partner asks for is cut to it, with a process warning
   * (SPILLWAY_PAUSE).
   */
  longestPause?: Duration
}

/** Options of `politeFetch`. Invalid options throw `PolicyError`. */
export interface PoliteOptions {
  /**
   * Default: none. The user's own limits, by partner: without `partner` by origin, like 'https://api.example.com',
   * where capitals and a final slash do not matter; else by its result. Kept over all processes if `client` is given. A
   * unit is spent from the moment the call leaves until one interval after its answer, because the partner counts
   * arrivals. An answer that takes longer than 250 ms or a fifth of the interval, whichever is less, counts as if it
   * had come after that time. `concurrency`: a place is held until the header fields of the answer have arrived, or the
   * call has failed.
   */
  limits?: Record<string, PartnerLimits>
  /**
   * Default: none. A Redis client, like `new Redis(url)`: limits, and waits that a partner requests, hold over all
   * processes with a client of the same Redis. While Redis is gone, calls are sent as without it, after at most three
   * seconds. The client is never closed here.
   */
  client?: RedisClient
  /** Default 'spillway'. Beside `client`: the beginning of its keys; processes with different ones share nothing. */
  prefix?: string
  /**
   * The partner's name, or several, from the widest to the narrowest, like ['https://api.example.com', 'search']: the
   * limits and pauses of all of them hold. Names without limits only share pauses. Default: the origin of the URL, like
   * 'https://api.example.com'.
   */
  partner?: (url: URL, init?: RequestInit) => string | readonly string[]
  /**
   * How often a call is repeated that the partner refuses: by 429, 503, 529, or 403 with Retry-After or with nothing
   * remaining. It waits as Retry-After or a RateLimit field asks, which pauses the partner; else 0.5 s, then 1 s, which
   * delays this call alone. Integer ≥ 0; default 2.
   * Only calls whose body can be sent again: none, text, bytes, a form or a Blob, not a stream and not the body of a
   * Request.
   */
  retries?: number
  /**
   * Methods that are sent again after a 503, because the partner may have carried the call out. Capitals do not matter.
   * Default: GET, HEAD, OPTIONS, TRACE, PUT, DELETE, and any request with an Idempotency-Key; a list given here
   * replaces all of these. After the other refusals every method is sent again.
   */
  retryMethods?: readonly string[]
  /**
   * How long one attempt of a call may wait, for its `cost` too. Default '30s'; 0: not at all; Infinity: no limit. A
   * longer wait rejects at once with `TimeoutError`, whose `retryAfterMs` tells when the call could have left; after
   * an answer, that answer is returned.
   */
  maxWait?: Duration | 0
  /**
   * The priority of a call that waits: an integer from −8 to 8. Calls of a higher one go first, within this process;
   * among equals the first that came. A call that later ones of a higher priority have passed for as long as `maxWait`
   * goes next. Default: 0.
   */
  priority?: (url: URL, init?: RequestInit) => number
  /** The function that sends the calls. Default: the global `fetch`. */
  fetch?: typeof fetch
  /**
   * Default: none. Receives `waited` and `level` of each partner's budgets ('rate'; the name is that of the partner,
   * and for those of `budgets` a space and their own) and places ('semaphore'), and the failures of Redis.
   */
  observer?: Observer
}

const OPTIONS: OptionNames<PoliteOptions> = {
  limits: true,
  client: true,
  prefix: true,
  partner: true,
  retries: true,
  retryMethods: true,
  maxWait: true,
  priority: true,
  fetch: true,
  observer: true,
}
const LIMIT_OPTIONS: OptionNames<PartnerLimits> = {
  rate: true,
  interval: true,
  concurrency: true,
  budgets: true,
  longestPause: true,
}
const BUDGET_OPTIONS: OptionNames<Budget> = { rate: true, interval: true, name: true, cost: true, settle: true }
const BUDGET_EXAMPLE = "{ rate: 200_000, interval: '1m', name: 'tokens' }"
const MOST_BUDGETS = 8
const EXAMPLE = "{ limits: { 'https://api.example.com': { rate: 100, interval: '1s' } } }"
const LONGEST_MS = 10 * 365 * 86_400_000
const METHOD = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
/** Safe and idempotent methods: RFC 9110, sections 9.2.1 and 9.2.2. */
const IDEMPOTENT = ['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE']

/** A partner's limits, checked. */
export interface CheckedLimits {
  readonly budgets: readonly CheckedBudget[]
  /** The name of the budget of `rate` and `interval`. */
  readonly shorthand: string | undefined
  /** Infinity: any number. */
  readonly concurrency: number
  readonly longestPauseMs: number
}

/** Of a partner that `limits` does not name. */
export const NO_LIMITS: CheckedLimits = {
  budgets: [],
  shorthand: undefined,
  concurrency: Number.POSITIVE_INFINITY,
  longestPauseMs: 3_600_000,
}

export interface CheckedOptions {
  readonly limits: ReadonlyMap<string, CheckedLimits>
  readonly client: RedisClient | undefined
  readonly prefix: string
  readonly partnerOf: (url: URL, init?: RequestInit) => unknown
  /** Throws `PolicyError` for what is no priority. */
  readonly priorityOf: (url: URL, init?: RequestInit) => number
  /** The partner that somebody has named; throws `PolicyError` for what is none. */
  readonly nameOf: (given: unknown, owner: string) => string
  readonly retries: number
  /** Whether a request may be sent again after a 503. */
  readonly isRepeatable: (method: string, headers: Headers) => boolean
  readonly maxWaitMs: number
  readonly send: typeof fetch
  readonly observer: Observer | undefined
}

/** Checks the options; throws `PolicyError`. */
export function parseOptions(options: PoliteOptions): CheckedOptions {
  checkOptions('politeFetch', options, OPTIONS, EXAMPLE)
  const { limits = {}, client, partner, retries = 2, retryMethods, maxWait = '30s', fetch: given, observer } = options
  const { priority, prefix } = options
  checkFunction('partner', partner, 'url => url.hostname')
  checkFunction('priority', priority, "url => (url.pathname === '/pay' ? 1 : 0)")
  checkFunction('fetch', given, 'globalThis.fetch')
  if (!Number.isSafeInteger(retries) || retries < 0) {
    throw new PolicyError(`politeFetch: retries ${shown(retries)}: expected an integer ≥ 0, like 2`)
  }
  if (client !== undefined) portOf(client, 'politeFetch')
  if (prefix !== undefined) checkText(prefix, 'politeFetch: prefix', 'shop')
  if (prefix !== undefined && client === undefined) {
    throw new PolicyError(
      `politeFetch: prefix ${shown(prefix)}: expected a client beside it, like { client, prefix: "shop" }`,
    )
  }
  if (!isPlainObject(limits)) {
    throw new PolicyError(
      `politeFetch: limits ${shown(limits)}: expected an object of limits by partner, like ${EXAMPLE}`,
    )
  }
  const nameOf = partner === undefined ? originOf : partnerName
  return {
    limits: limitsOf(limits, nameOf),
    client,
    prefix: prefix ?? 'spillway',
    partnerOf: partner ?? (url => url.origin),
    priorityOf: (url, init) => (priority === undefined ? 0 : checkedPriority(priority(url, init))),
    nameOf,
    retries,
    isRepeatable: repeatable(retryMethods),
    maxWaitMs: maxWait === Number.POSITIVE_INFINITY ? maxWait : parseDurationOrZero(maxWait, 'politeFetch: maxWait'),
    send: given ?? ((input, init) => globalThis.fetch(input, init)),
    observer: parseObserver(observer, 'politeFetch'),
  }
}

/** A Map has no properties, and would limit nothing. */
function isPlainObject(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const prototype = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

function limitsOf(
  limits: Record<string, PartnerLimits>,
  nameOf: CheckedOptions['nameOf'],
): ReadonlyMap<string, CheckedLimits> {
  const checked = new Map<string, CheckedLimits>()
  const keys = new Map<string, string>()
  for (const [key, given] of Object.entries(limits)) {
    const owner = `politeFetch: limits[${shown(key)}]`
    const name = nameOf(key, owner)
    const other = keys.get(name)
    if (other !== undefined) {
      throw new PolicyError(
        `${owner}: expected one key for an origin, but limits[${shown(other)}] is also ${shown(name)}`,
      )
    }
    keys.set(name, key)
    checked.set(name, parseLimits(owner, given))
  }
  return checked
}

function parseLimits(owner: string, limits: PartnerLimits): CheckedLimits {
  checkOptions(owner, limits, LIMIT_OPTIONS, "{ rate: 100, interval: '1s' }")
  const { rate, interval, concurrency, budgets = [], longestPause } = limits
  if (!Array.isArray(budgets)) {
    throw new PolicyError(`${owner}: budgets ${shown(budgets)}: expected a list, like [${BUDGET_EXAMPLE}]`)
  }
  const hasRate = rate !== undefined || interval !== undefined
  if (!hasRate && concurrency === undefined && budgets.length === 0 && longestPause === undefined) {
    throw new PolicyError(`${owner}: no limit: expected at least one, like { rate: 100, interval: '1s' }`)
  }
  if (concurrency !== undefined) checkCount(`${owner}: concurrency`, concurrency, 10)
  const checked = budgets.map((budget, index) => budgetOf(`${owner}: budgets[${index}]`, budget, `#${index}`))
  if (hasRate) checked.unshift(rateOf(owner, { rate, interval } as Budget, 'rate'))
  if (checked.length > MOST_BUDGETS) {
    throw new PolicyError(
      `${owner}: ${checked.length} budgets: expected at most ${MOST_BUDGETS}, like [${BUDGET_EXAMPLE}]`,
    )
  }
  for (const [index, { name }] of checked.entries()) {
    if (checked.findIndex(other => other.name === name) === index) continue
    const expected = `expected a \`name\` for each, like [${BUDGET_EXAMPLE}]`
    throw new PolicyError(`${owner}: two budgets are called ${shown(name)}: ${expected}`)
  }
  return {
    budgets: checked,
    shorthand: hasRate ? checked[0].name : undefined,
    concurrency: concurrency ?? NO_LIMITS.concurrency,
    longestPauseMs:
      longestPause === undefined ? NO_LIMITS.longestPauseMs : lengthOf(longestPause, `${owner}: longestPause`),
  }
}

function budgetOf(owner: string, budget: Budget, place: string): CheckedBudget {
  checkOptions(owner, budget, BUDGET_OPTIONS, BUDGET_EXAMPLE)
  const { name, cost, settle } = budget
  if (name !== undefined) checkText(name, `${owner}: name`, 'tokens')
  checkFunction('cost', cost, 'async (url, init) => countTokens(init.body)', owner)
  checkFunction('settle', settle, "response => Number(response.headers.get('x-tokens'))", owner)
  return rateOf(owner, budget, name === undefined ? place : `=${name}`)
}

function rateOf(owner: string, { rate, interval, name, cost, settle }: Budget, id: string): CheckedBudget {
  checkCount(`${owner}: rate`, rate, 100)
  if (interval === undefined) throw new PolicyError(`${owner}: interval undefined: expected a duration, like '1s'`)
  const intervalMs = lengthOf(interval, `${owner}: interval`)
  return { rate, intervalMs, name: name ?? nameOfRate(rate, intervalMs), id, cost, settle }
}

function checkedPriority(priority: number): number {
  if (Number.isInteger(priority) && Math.abs(priority) <= MOST_PRIORITY) return priority
  throw new PolicyError(`politeFetch: priority returned ${shown(priority)}: expected an integer from -8 to 8, like 1`)
}

function lengthOf(given: Duration, what: string): number {
  const ms = parseOption(given, what)
  if (ms <= LONGEST_MS) return ms
  throw new PolicyError(`${what} ${shown(given)}: expected at most ten years, like '1h'`)
}

/**
 * The origin that a text means; throws `PolicyError`, which names the origin to write, for a text that says more or
 * less than an origin.
 */
function originOf(given: unknown, owner: string): string {
  const text = partnerName(given, owner)
  const url = webUrlOf(text)
  if (url !== undefined && url.href === `${url.origin}/`) return url.origin
  const meant = url ?? webUrlOf(`https://${text.trim().replace(/^[a-z][a-z0-9+.-]*:?\/\//i, '')}`)
  const told =
    meant === undefined ? 'an origin, like "https://api.example.com"' : `an origin: write ${shown(meant.origin)}`
  throw new PolicyError(
    `${owner}: ${shown(text)}: expected ${told}. For other names than origins give the option partner`,
  )
}

/** The names of a call's partners, each once; throws `PolicyError` for anything else. */
export function partnerNames(given: unknown): readonly string[] {
  const owner = 'politeFetch: partner returned'
  if (typeof given === 'string') return [partnerName(given, owner)]
  if (!Array.isArray(given) || given.length === 0) return [partnerName(given, owner)]
  return [...new Set(given.map(name => partnerName(name, owner)))]
}

/** Throws `PolicyError` for what is no text; `owner` says where it came from. */
function partnerName(given: unknown, owner: string): string {
  if (typeof given === 'string' && given !== '') return given
  throw new PolicyError(`${owner} ${shown(given)}: expected a text that is not empty, like the origin`)
}

/** Undefined for other schemes than http and https. */
export function webUrlOf(text: string): URL | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined
  return url?.protocol === 'http:' || url?.protocol === 'https:' ? url : undefined
}

function repeatable(given: readonly string[] | undefined): CheckedOptions['isRepeatable'] {
  if (
    given !== undefined &&
    !(Array.isArray(given) && given.every(method => typeof method === 'string' && METHOD.test(method)))
  ) {
    throw new PolicyError(
      `politeFetch: retryMethods ${shown(given)}: expected a list of methods, like ['GET', 'HEAD', 'PUT', 'POST']`,
    )
  }
  const methods = new Set((given ?? IDEMPOTENT).map(method => method.toUpperCase()))
  const byKey = given === undefined
  return (method, headers) => methods.has(method.toUpperCase()) || (byKey && headers.has('idempotency-key'))
}

function checkCount(what: string, value: unknown, example: number): void {
  if (Number.isSafeInteger(value) && (value as number) >= 1) return
  throw new PolicyError(`${what} ${shown(value)}: expected an integer ≥ 1, like ${example}`)
}

function checkFunction(name: string, value: unknown, example: string, owner = 'politeFetch'): void {
  if (value === undefined || typeof value === 'function') return
  throw new PolicyError(`${owner}: ${name} ${shown(value)}: expected a function, like ${example}`)
}
