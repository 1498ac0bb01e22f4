import type { Request, Response } from 'express'
import { type Rule, Rules } from '../../http/rate-limit/rules.js'
import { after, type SyncOrAsync } from '../../http/sync-or-async.js'
import type { Decision } from '../../limiter/core/decision.js'
import type { Duration } from '../../limiter/core/duration.js'
import { PolicyError, StoreError } from '../../limiter/core/errors.js'
import type { LimitOptions, PolicyInput } from '../../limiter/core/limit.js'
import type { RateLimiter } from '../../limiter/rate-limiter.js'
import type { Configuration } from './configuration.js'
import { windowLength } from './hits.js'
import { MemoryStore } from './memory-store.js'
import type { ClientRateLimitInfo, IncrementResponse, Options, RateLimitOptions, Store } from './options.js'
import { RedisStore } from './redis-store.js'

/** The result of counting a request: the count of its key, and its limit. */
export interface Count {
  readonly totalHits: number
  readonly resetTime: Date | undefined
  /** The limit that the way of counting applied; undefined: the option `limit` applies. */
  readonly limit?: number
  readonly windowMs: number
  /** The delay before the request may be passed on, ms. */
  readonly delayMs?: number
  giveBack(): Promise<void> | void
}

/** A way of counting requests. */
export interface Counting {
  count(key: string, request: Request, response: Response): SyncOrAsync<Count>
  resetKey(key: string): Promise<void> | void
  /** Undefined if the store cannot look a key up. */
  getKey?(key: string): Promise<ClientRateLimitInfo | undefined> | ClientRateLimitInfo | undefined
}

/** Counts as express-rate-limit does: every request, refused or not, in the fixed window of a store of its kind. */
export class HitCounting implements Counting {
  readonly #store: Store
  readonly #windowMs: number
  readonly getKey: Counting['getKey']

  constructor({ store, windowMs }: Configuration) {
    this.#store = store as Store
    this.#windowMs = windowMs
    this.getKey = this.#store.get?.bind(this.#store)
  }

  count(key: string): SyncOrAsync<Count> {
    return after<IncrementResponse, Count>(
      MemoryStore.countNow(this.#store, key) ?? this.#store.increment(key),
      hits => new HitCount(hits.totalHits, hits.resetTime, this.#windowMs, this.#store, key),
    )
  }

  resetKey(key: string): Promise<void> | void {
    return this.#store.resetKey(key)
  }
}

class HitCount implements Count {
  constructor(
    readonly totalHits: number,
    readonly resetTime: Date | undefined,
    readonly windowMs: number,
    readonly store: Store,
    readonly key: string,
  ) {}

  giveBack(): Promise<void> | void {
    return this.store.decrement(this.key)
  }
}

/** True for options that express-rate-limit does not have: then a `RateLimiter` decides. */
export function wantsPolicy({ algorithm, policy, store }: Configuration): boolean {
  return policy !== undefined || (algorithm !== undefined && algorithm !== 'fixed-window') || 'consume' in store
}

/** Decides by a `RateLimiter`: any algorithm, several limits, refused requests spend nothing. */
export class PolicyCounting implements Counting {
  readonly #rules: Rules
  /** The rule for all requests; undefined if there are several. */
  readonly #rule: Rule | undefined
  readonly #policy: PolicyInput | ((request: Request, response: Response) => SyncOrAsync<PolicyInput>)
  #storeError: Error | undefined

  /** Throws `PolicyError` for an invalid policy, or one that the store cannot count. */
  constructor(config: Configuration, passed: RateLimitOptions) {
    this.#policy = policyOf(config, passed)
    const given = config.store
    const counted = RedisStore.coreOf(given) ?? { store: MemoryStore.coreOf(given) ?? given }
    const observer = { storeFailed: (error: Error) => (this.#storeError = error) }
    this.#rules = new Rules({ ...counted, onStoreFailure: 'open', observer }, [])
    this.#rules.check()
    this.#rule = typeof this.#policy === 'function' ? undefined : this.#rules.rule(this.#policy)
  }

  count(key: string, request: Request, response: Response): SyncOrAsync<Count> {
    if (this.#rule !== undefined) return this.#decide(this.#rule.limiter, key)
    const policy = this.#policy as (request: Request, response: Response) => SyncOrAsync<PolicyInput>
    return after(policy(request, response), policy => this.#decide(this.#rules.rule(policy).limiter, key))
  }

  resetKey(key: string): Promise<void> {
    return this.#onlyLimiter('resetKey').reset(key)
  }

  async getKey(key: string): Promise<ClientRateLimitInfo | undefined> {
    const decision = await this.#onlyLimiter('getKey').peek(key, 0)
    if (decision.degraded) throw this.#failure()
    const { totalHits, resetTime } = new PolicyCount(decision, () => {})
    return totalHits === 0 ? undefined : { totalHits, resetTime }
  }

  async #decide(limiter: RateLimiter, key: string): Promise<Count> {
    // A hit store converts any key to text; a limiter requires a text.
    const decision = await limiter.consume(String(key))
    if (decision.degraded) throw this.#failure()
    return new PolicyCount(decision, () => limiter.settle(decision, 0))
  }

  #onlyLimiter(method: string): RateLimiter {
    if (this.#rule !== undefined) return this.#rule.limiter
    throw new PolicyError(
      `${method}: the policy is a function and its limits differ: expected one policy for all requests`,
    )
  }

  #failure(): Error {
    return this.#storeError ?? new StoreError('the store failed')
  }
}

/** A decision in the terms of express-rate-limit. */
class PolicyCount implements Count {
  readonly limit: number
  readonly totalHits: number
  readonly resetTime: Date
  readonly windowMs: number
  readonly delayMs: number

  constructor(
    { limit, allowed, remaining, retryAfterMs, resetAfterMs, delayMs }: Decision,
    readonly giveBack: () => Promise<void> | void,
  ) {
    const waitMs = allowed ? resetAfterMs : retryAfterMs
    this.limit = limit.quota
    // A refused request reports one hit more than the limit, though it spent nothing: handlers compare `used` with
    // `limit`.
    this.totalHits = allowed ? Math.max(0, limit.quota - remaining) : limit.quota + 1
    this.resetTime = new Date(Date.now() + (Number.isFinite(waitMs) ? waitMs : limit.windowMs))
    this.windowMs = limit.windowMs
    this.delayMs = delayMs
  }
}

function policyOf(
  { algorithm = 'fixed-window', limit, windowMs, policy }: Configuration,
  passed: RateLimitOptions,
): Options['policy'] & {} {
  if (policy === undefined) {
    // '15m' is a window here, as for the Redis store; '900000' is its number, as in a hit store. What is neither is
    // refused by its name.
    const window = Number.isNaN(Number(windowMs)) ? (windowMs as Duration) : windowLength(windowMs)
    // A text of the environment counts as its number, as in a hit store.
    const quotaOf = (limit: unknown) => (typeof limit === 'string' ? Number(limit) : limit) as number
    if (typeof limit !== 'function') return { quota: quotaOf(limit), window, algorithm }
    // Counts belong to the name: a name without the quota keeps them when the quota changes.
    const limitOf = (quota: number): LimitOptions => ({ quota: quotaOf(quota), window, algorithm, name: 'limit' })
    return (request, response) => Promise.resolve(limit(request, response)).then(limitOf)
  }
  for (const name of ['limit', 'max', 'windowMs', 'algorithm'] as const) {
    if (passed[name] === undefined) continue
    throw new PolicyError(
      `rateLimit: given both policy and ${name}, expected one of them: policy has all three, like "100/1m ` +
        'fixed-window"',
    )
  }
  return policy
}
