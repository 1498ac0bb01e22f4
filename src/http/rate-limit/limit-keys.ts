import { PolicyError, shown } from '../../core/errors.js'
import { type LimitOptions, type PolicyInput, parseLimit } from '../../core/limit.js'
import type { GivenKey } from '../given-key.js'
import type { SyncOrAsync } from '../sync-or-async.js'

/** A limit of an HTTP policy, which may count by a key of its own: per address, per user, for the whole service. */
export interface HttpLimitOptions<Request, Response> extends LimitOptions {
  /** The key for this limit; undefined: this limit does not apply. Default: the middleware's key. */
  key?: (req: Request, res: Response) => SyncOrAsync<GivenKey>
}

/** As `PolicyInput`, whose objects may carry a `key`. */
export type HttpPolicyInput<Request, Response> =
  | string
  | HttpLimitOptions<Request, Response>
  | ReadonlyArray<string | HttpLimitOptions<Request, Response>>

/** Finds the key of a request for one limit. */
export type KeyOf<Request, Response> = NonNullable<HttpLimitOptions<Request, Response>['key']>

/** A policy as a limiter takes it, and the keys of those limits that have their own, by the limit's name. */
interface KeyedPolicy<Request, Response> {
  readonly policy: PolicyInput
  /** undefined: one key for all. */
  readonly keys: ReadonlyMap<string, KeyOf<Request, Response>> | undefined
}

/** Parts the keys from the limits. Throws `PolicyError` for a key that is no function. */
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

/** Most policies have no keys of their own, and are passed on as they are. */
function mayHaveKeys(input: unknown): boolean {
  if (typeof input !== 'object' || input === null) return false
  return Array.isArray(input) ? input.some(mayHaveKeys) : 'key' in input
}
