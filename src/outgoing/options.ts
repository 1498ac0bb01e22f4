import { type Duration, parseDurationOrZero, parseOption } from '../core/duration.js'
import { PolicyError, shown } from '../core/errors.js'
import { type Observer, parseObserver } from '../core/observer.js'
import { checkOptions, type OptionNames } from '../core/option-names.js'
import type { RedisClient } from '../redis/client.js'
import { portOf } from '../redis/port-of.js'

/** The user's own limit for calls to one partner. */
export interface PartnerLimit {
  /** Calls per interval; integer ≥ 1. */
  rate: number
  /** Length of the interval, at most ten years. */
  interval: Duration
  /** The most calls in flight; integer ≥ 1. Default: no limit. */
  concurrency?: number
}

/** Options of `politeFetch`. Invalid options throw `PolicyError`. */
export interface PoliteOptions {
  /**
   * The user's own limits for partners, by the result of `partner`, kept over all processes if `client` is given. A unit is spent from the moment the
   * call leaves until one interval after its answer, because the partner counts arrivals. An answer that takes longer than
   * 250 ms or a fifth of the interval, whichever is less, counts as if it had come after that time. `concurrency`: a place is
   * held until the header fields of the answer have arrived, or the call has failed.
   */
  limits?: Record<string, PartnerLimit>
  /**
   * A Redis client: limits, and waits that a partner requests, hold over all processes with a client of the same Redis. While Redis
   * is gone, calls are sent as without it, after at most three seconds. The client is never closed here.
   */
  client?: RedisClient
  /** The partner's name. Default: the origin of the URL, like 'https://api.example.com'. */
  partner?: (url: URL, init?: RequestInit) => string
  /**
   * How often a call is repeated after 429 and 503, as Retry-After asks, else with backoff. Integer ≥ 0; default 2. Only calls whose body can
   * be sent again: none, text, bytes, a form or a Blob, not a stream and not the body of a Request.
   */
  retries?: number
  /**
   * How long one attempt of a call may wait. Default '30s'; 0: not at all; Infinity: no limit. A longer wait rejects at once with
   * `TimeoutError`, whose `retryAfterMs` tells when the call could have left; after an answer, that answer is returned.
   */
  maxWait?: Duration | 0
  /** The function that sends the calls. Default: the global `fetch`. */
  fetch?: typeof fetch
  /** Receives `waited` and `level` of each partner's rate ('rate') and places ('semaphore'), and the failures of Redis. */
  observer?: Observer
}

const OPTIONS: OptionNames<PoliteOptions> = {
  limits: true,
  client: true,
  partner: true,
  retries: true,
  maxWait: true,
  fetch: true,
  observer: true,
}
const LIMIT_OPTIONS: OptionNames<PartnerLimit> = { rate: true, interval: true, concurrency: true }
const EXAMPLE = "{ limits: { 'https://api.example.com': { rate: 100, interval: '1s' } } }"
const LONGEST_MS = 10 * 365 * 86_400_000

/** A partner's limit, checked. */
export interface CheckedLimit {
  readonly rate: number
  readonly intervalMs: number
  /** Infinity: any number. */
  readonly concurrency: number
}

export interface CheckedOptions {
  readonly limits: ReadonlyMap<string, CheckedLimit>
  readonly client: RedisClient | undefined
  readonly partnerOf: (url: URL, init?: RequestInit) => unknown
  readonly retries: number
  readonly maxWaitMs: number
  readonly send: typeof fetch
  readonly observer: Observer | undefined
}

/** Checks the options; throws `PolicyError`. */
export function parseOptions(options: PoliteOptions): CheckedOptions {
  checkOptions('politeFetch', options, OPTIONS, EXAMPLE)
  const { limits = {}, client, partner, retries = 2, maxWait = '30s', fetch: given, observer } = options
  checkFunction('partner', partner, 'url => url.hostname')
  checkFunction('fetch', given, 'globalThis.fetch')
  if (!Number.isSafeInteger(retries) || retries < 0) {
    throw new PolicyError(`politeFetch: retries ${shown(retries)}: expected an integer ≥ 0, like 2`)
  }
  if (client !== undefined) portOf(client, 'politeFetch')
  if (typeof limits !== 'object' || limits === null || Array.isArray(limits)) {
    throw new PolicyError(`politeFetch: limits ${shown(limits)}: expected limits by partner, like ${EXAMPLE}`)
  }
  return {
    limits: new Map(Object.entries(limits).map(([name, limit]) => [name, parseLimit(name, limit)])),
    client,
    partnerOf: partner ?? (url => url.origin),
    retries,
    maxWaitMs: maxWait === Number.POSITIVE_INFINITY ? maxWait : parseDurationOrZero(maxWait, 'politeFetch: maxWait'),
    send: given ?? ((input, init) => globalThis.fetch(input, init)),
    observer: parseObserver(observer, 'politeFetch'),
  }
}

function parseLimit(name: string, limit: PartnerLimit): CheckedLimit {
  const owner = `politeFetch: limits[${shown(name)}]`
  checkOptions(owner, limit, LIMIT_OPTIONS, "{ rate: 100, interval: '1s' }")
  const { rate, interval, concurrency } = limit
  checkCount(`${owner}: rate`, rate, 100)
  if (concurrency !== undefined) checkCount(`${owner}: concurrency`, concurrency, 10)
  const intervalMs = parseOption(interval, `${owner}: interval`)
  if (intervalMs > LONGEST_MS) {
    throw new PolicyError(`${owner}: interval ${shown(interval)}: expected at most ten years, like '1h'`)
  }
  return { rate, intervalMs, concurrency: concurrency ?? Number.POSITIVE_INFINITY }
}

function checkCount(what: string, value: unknown, example: number): void {
  if (Number.isSafeInteger(value) && (value as number) >= 1) return
  throw new PolicyError(`${what} ${shown(value)}: expected an integer ≥ 1, like ${example}`)
}

function checkFunction(name: string, value: unknown, example: string): void {
  if (value === undefined || typeof value === 'function') return
  throw new PolicyError(`politeFetch: ${name} ${shown(value)}: expected a function, like ${example}`)
}
