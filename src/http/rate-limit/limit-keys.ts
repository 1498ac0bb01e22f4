import { PolicyError, shown } from '../../core/errors.js'
import { type CalendarLimitOptions, type LimitOptions, type PolicyInput, parseLimit } from '../../core/limit.js'
import type { GivenKey } from '../given-key.js'
import type { SyncOrAsync } from '../sync-or-async.js'

/** A limit of an HTTP policy, which may have its own key: per address, per user, for the whole service. */
export interface HttpLimitOptions<Request, Response> extends LimitOptions {
  /** The key for this limit; undefined: this limit does not apply. Default: the middleware's key. */
  key?: (req: Request, res: Response) => SyncOrAsync<GivenKey>
}

/** As `HttpLimitOptions`, in windows of the calendar: `{ quota: 500, window: 'day', timezone: 'Europe/Berlin' }`. */
export interface HttpCalendarLimitOptions<Request, Response> extends CalendarLimitOptions {
  /** The key for this limit; undefined: this limit does not apply. Default: the middleware's key. */
  key?: (req: Request, res: Response) => SyncOrAsync<GivenKey>
}

/** One limit of a policy. */
type HttpLimitInput<Request, Response> =
  | string
  | HttpLimitOptions<Request, Response>
  | HttpCalendarLimitOptions<Request, Response>

/** As `PolicyInput`, but objects may have a `key`. */
export type HttpPolicyInput<Request, Response> =
  | HttpLimitInput<Request, Response>
  | ReadonlyArray<HttpLimitInput<Request, Response>>

/** Finds the key of a request for one limit. */
export type KeyOf<Request, Response> = NonNullable<HttpLimitOptions<Request, Response>['key']>

/** A policy in the limiter's format, and the separate keys of its limits, by the limit's name. */
interface KeyedPolicy<Request, Response> {
  readonly policy: PolicyInput
  /** undefined: one key for all. */
  readonly keys: ReadonlyMap<string, KeyOf<Request, Response>> | undefined
}

/** Separates the keys from the limits. Throws `PolicyError` for a key that is not a function. */
export function partKeys<Request, Response>(input: HttpPolicyInput<Request, Response>): KeyedPolicy<Request, Response> {
  if (!mayHaveKeys(input)) return { policy: input as PolicyInput, keys: undefined }
  const entries = Array.isArray(input) ? input : [input]
  const keys = new Map<string, KeyOf<Request, Response>>()
  const limits = entries.map(entry => {
    if (typeof entry !== 'object' || entry === null || !('key' in entry)) return entry
    const { key, ...limit } = entry as HttpLimitOptions<Request, Response>
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
