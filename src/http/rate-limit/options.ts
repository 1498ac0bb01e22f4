import type { Decision } from '../../limiter/core/decision.js'
import type { Duration } from '../../limiter/core/duration.js'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import {
  type AlgorithmName,
  type CalendarLimitOptions,
  type LimitOptions,
  type PolicyInput,
  parseLimit,
} from '../../limiter/core/limit.js'
import type { Observer } from '../../limiter/core/observer.js'
import type { StoreFailure } from '../../limiter/fallback.js'
import type { RateLimiter, RateLimiterOptions } from '../../limiter/rate-limiter.js'
import type { ClientOptions } from '../address/client.js'
import type { GivenKey } from '../call-option.js'
import type { HeaderForm } from '../headers.js'
import type { ResponseEnd } from '../response-watch.js'
import type { SyncOrAsync } from '../sync-or-async.js'
import type { BlockOptions } from './auto-block.js'
import type { DeferOptions } from './deferral.js'
import type { SlowDownOptions } from './slow-down.js'

/** A limit of an HTTP policy, which may have its own key: per address, per user, for the whole service. */
export interface HttpLimitOptions<Args extends readonly unknown[]> extends LimitOptions {
  /** The key for this limit; undefined: this limit does not apply. Default: the middleware's key. */
  key?: (...request: Args) => SyncOrAsync<GivenKey>
}

/** As `HttpLimitOptions`, in windows of the calendar: `{ quota: 500, calendar: 'day', timezone: 'Europe/Berlin' }`. */
export interface HttpCalendarLimitOptions<Args extends readonly unknown[]> extends CalendarLimitOptions {
  /** The key for this limit; undefined: this limit does not apply. Default: the middleware's key. */
  key?: (...request: Args) => SyncOrAsync<GivenKey>
}

/** One limit of a policy. */
export type HttpLimitInput<Args extends readonly unknown[]> =
  | string
  | HttpLimitOptions<Args>
  | HttpCalendarLimitOptions<Args>

/** As `PolicyInput`, but objects may have a `key`. */
export type HttpPolicyInput<Args extends readonly unknown[]> =
  | HttpLimitInput<Args>
  | ReadonlyArray<HttpLimitInput<Args>>

/** Finds the key of a request for one limit. */
export type KeyOf<Args extends readonly unknown[]> = NonNullable<HttpLimitOptions<Args>['key']>

/** A policy in the limiter's format, and the separate keys of its limits, by the limit's name. */
interface KeyedPolicy<Args extends readonly unknown[]> {
  readonly policy: PolicyInput
  /** undefined: one key for all. */
  readonly keys: ReadonlyMap<string, KeyOf<Args>> | undefined
}

/** Separates the keys from the limits. Throws `PolicyError` for a key that is not a function. */
export function partKeys<Args extends readonly unknown[]>(input: HttpPolicyInput<Args>): KeyedPolicy<Args> {
  if (!mayHaveKeys(input)) return { policy: input as PolicyInput, keys: undefined }
  const entries = Array.isArray(input) ? input : [input]
  const keys = new Map<string, KeyOf<Args>>()
  const limits = entries.map(entry => {
    if (typeof entry !== 'object' || entry === null || !('key' in entry)) return entry
    const { key, ...limit } = entry as HttpLimitOptions<Args>
    if (key === undefined) return limit
    if (typeof key !== 'function') {
      throw new PolicyError(`rateLimit: key ${shown(key)} of a limit: expected a function, like req => req.user?.id`)
    }
    keys.set(parseLimit(limit).name, key)
    return limit
  })
  return { policy: Array.isArray(input) ? limits : limits[0], keys: keys.size > 0 ? keys : undefined }
}

/** Most policies have no separate keys, and are passed on unchanged. */
function mayHaveKeys(input: unknown): boolean {
  if (typeof input !== 'object' || input === null) return false
  return Array.isArray(input) ? input.some(mayHaveKeys) : 'key' in input
}

/**
 * The options of a limiter over HTTP. Functions are called for each request, in the order skip, key, policy or limit,
 * cost. If one throws or rejects, its error goes to the framework, and nothing is spent.
 */
export interface HttpOptions<Args extends readonly unknown[]> extends ClientOptions {
  /**
   * The limits, like '100/1m'. Default: `limit` in `windowMs`. An object may have its own `key`, so that limits per
   * address, per user and for the service are one decision, all or none. Mutually exclusive with `limit` and
   * `windowMs`. A function decides per request (plans, tiers): with a `name`, counts survive a change of plan, as
   * long as a limit's algorithm and window stay the same.
   */
  policy?: HttpPolicyInput<Args> | ((...request: Args) => HttpPolicyInput<Args> | Promise<HttpPolicyInput<Args>>)
  /**
   * Units per `windowMs`; integer ≥ 0, default 5. 0 refuses everything. A function decides per request; all its limits
   * share one count.
   */
  limit?: number | ((...request: Args) => number | Promise<number>)
  /** Another name for `limit`. */
  max?: number | ((...request: Args) => number | Promise<number>)
  /** Default 60 000 ms. Only with `limit`. */
  windowMs?: Duration
  /** Default 'sliding-window'. Only with `limit`; in a policy it is part of the text. */
  algorithm?: AlgorithmName
  /**
   * The key of a request: a text, or a number, which stands for its text. undefined: this request is not limited.
   * Default: the client's address, IPv6 masked to `ipv6Subnet`; behind proxies set `proxies`, because any client can
   * send X-Forwarded-For.
   */
  key?: (...request: Args) => GivenKey | Promise<GivenKey>
  /** Another name for `key`. */
  keyGenerator?: (...request: Args) => GivenKey | Promise<GivenKey>
  /**
   * The cost of a request in units; integer ≥ 0, default 1. 0 spends nothing, and is refused only while the key is
   * blocked, in an outage under `closed`, or with `settle`.
   */
  cost?: number | ((...request: Args) => number | Promise<number>)
  /**
   * Default: none. The real cost of a request, known at its end; integer ≥ 0. Units charged in excess are given back,
   * missing units are charged, even if they do not fit. With `cost: 0` a request passes if one unit would fit, and pays
   * here, so that requests that turn out to be free never lead to a refusal.
   *
   * Called once, in the turn in which the handler ends the response, also if the client has gone by then
   * (`end.completed` is false). If the handler has not ended it 30 s after the client went away, it is called then
   * (`end.ended` is false), and at least 1 is charged regardless of its result.
   */
  settle?: (...request: [...request: Args, end: ResponseEnd]) => number | Promise<number>
  /**
   * Default: none. Blocks a key that is denied too often: `{ after: 20, for: '1h' }`. Refusals then report the block
   * and its duration. With a `factor` each block is longer than the one before:
   * `{ after: 20, for: '1m', factor: 2, max: '1d' }`.
   */
  block?: BlockOptions
  /**
   * Default: none. Delays requests before they are refused: with `{ after: 50, by: '100ms', max: '2s' }` the n-th unit
   * above 50 waits n × 100 ms, at most two seconds. A client that goes away meanwhile gets its units back. At most 10
   * 000 requests wait in a process; more are refused.
   */
  slowDown?: SlowDownOptions
  /**
   * Puts requests over the limit into a queue instead of refusing them, and answers 202 with an id, like
   * `{ queue, message: req => req.body }`. Its message is due when the request could be repeated; the consumers of the
   * queue keep the rate. A request is still refused if its key is blocked, if it can never fit, or if the queue is full
   * or fails.
   */
  defer?: DeferOptions<Args>
  /** Default: a `MemoryStore` of its own. Stores made for express-rate-limit work too, for one fixed window. */
  store?: RateLimiterOptions['store']
  /**
   * Default 'default'. On one store, limiters of one name share the counts of limits with one algorithm and window:
   * give others different names. What was spent stays when the quota changes. Under 'default' counts also belong to the
   * quota of a limit without a name of its own.
   */
  name?: string
  /** true: this request is not limited, like `req => req.path === '/health'`. Default: all are. */
  skip?: (...request: Args) => boolean | Promise<boolean>
  /** The status of a refusal, 200 to 599; default 429. An outage under `onStoreFailure: 'closed'` is always 503. */
  statusCode?: number
  /**
   * The body of a refusal: a text as it is, anything else as JSON. A function is called for each refusal, after status
   * and header fields are set and the decision is on the request; undefined means the default: problem details if the
   * client's Accept header names JSON, else one line of text.
   */
  message?: string | object | ((...request: [...request: Args, decision: Decision]) => unknown)
  /**
   * Writes the refusal instead of the default body: ends the response (Express), or sets `ctx.body` (Koa). Called after
   * status and header fields are set and the decision is on the request. Its errors go to the framework's error
   * handling. Not called for an address on the deny list. With it, `message` is not used.
   */
  handler?: (...request: [...request: Args, decision: Decision]) => unknown
  /** Default ['draft-8', 'legacy']; [] for none. 'draft-8' cannot be combined with 'draft-7' or 'draft-6'. */
  headers?: readonly HeaderForm[]
  /** Default 50 ms: a store that has not answered by then has failed for this request. */
  deadline?: Duration
  /** Decides while the store fails. Default 'local': this process alone. */
  onStoreFailure?: StoreFailure
  /** (0, 1], default 1: the part of the quota that this process grants alone while the store fails. */
  localShare?: number
  /**
   * Default true (10 000 keys): refuse a key that the store denied, without asking again, until its `retryAfterMs`
   * ends, for 1 s at most.
   */
  denyCache?: boolean | number
  /**
   * Default: none. Receives decisions and events of the store, for metrics and logs, like `prometheusObserver()`.
   * Without an observer, an outage of the store causes process warnings (SPILLWAY_STORE): when three decisions in a row
   * did not come from the store, and when it answers again.
   */
  observer?: Observer
  /** Default false. true: decide and report, in headers too, but let every request pass. */
  shadow?: boolean
  /**
   * An existing limiter, instead of policy, limit, max, windowMs, algorithm, store, name, deadline, onStoreFailure,
   * localShare, denyCache, shadow and observer: any of them beside it is a `PolicyError`. All other options still
   * apply.
   */
  limiter?: RateLimiter
}
