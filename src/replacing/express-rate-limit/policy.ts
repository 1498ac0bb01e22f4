import type { Request, Response } from 'express'
import { after, type SyncOrAsync } from '../../http/sync-or-async.js'
import type { Decision } from '../../limiter/core/decision.js'
import { PolicyError, StoreError } from '../../limiter/core/errors.js'
import type { LimitOptions, PolicyInput } from '../../limiter/core/limit.js'
import { RateLimiter } from '../../limiter/rate-limiter.js'
import { HitsStore, windowOf } from './hits.js'
import type { ClientRateLimitInfo, Options, RateLimitOptions, Store } from './options.js'

/** The count of a request. */
export interface Count extends ClientRateLimitInfo {
  /** If a `RateLimiter` has decided: with which limit. */
  readonly limit?: number
  readonly windowMs?: number
  /** The delay before the request may be passed on, ms. */
  readonly delayMs?: number
  readonly decision?: Decision
}

/** Counts requests. */
export interface Counter {
  count(key: string, request: Request, response: Response): SyncOrAsync<Count>
  /** As far as it still counts. `endsAt`: when its window ends, ms since 1970; NaN if the store does not know. */
  giveBack(key: string, count: Count, endsAt: number): Promise<void> | void
  resetKey(key: string): Promise<void> | void
  /** Undefined if the store cannot look a key up. */
  readonly getKey: Store['get']
}

/** Counts as express-rate-limit does: every request, refused or not, in the window of a store of its kind. */
export function hitCounter(store: Store): Counter {
  return {
    count: key => HitsStore.increment(store, key),
    giveBack(key, _, endsAt) {
      if (!(Date.now() >= endsAt)) return store.decrement(key)
    },
    resetKey: key => store.resetKey(key),
    getKey: store.get?.bind(store),
  }
}

/** True for options that express-rate-limit does not have: then a `RateLimiter` decides. */
export function wantsPolicy({ algorithm, policy, store }: Options): boolean {
  return policy !== undefined || (algorithm !== undefined && algorithm !== 'fixed-window') || 'consume' in store
}

/**
 * Decides by a `RateLimiter`: any algorithm, several limits, refused requests spend nothing. Throws `PolicyError` for
 * an invalid policy, or one that the store cannot count.
 */
export function policyCounter(options: Options, passed: RateLimitOptions): Counter {
  const policy = policyOf(options, passed)
  const isFunction = typeof policy === 'function'
  let failure: Error | undefined
  /** Of the request that is decided in this turn. */
  let current: PolicyInput
  const limiter = new RateLimiter({
    ...(HitsStore.coreOf(options.store) ?? { store: options.store }),
    policy: isFunction ? () => current : policy,
    onStoreFailure: 'open',
    observer: {
      storeFailed: error => {
        failure = error
      },
    },
  })
  const countOf = (decision: Decision) => {
    if (decision.degraded) throw failure ?? new StoreError('the store failed')
    return decisionCount(decision)
  }
  const decide = (key: string) => after<Decision, Count>(limiter.decide(String(key)), countOf)
  const only = (method: string) => {
    if (!isFunction) return limiter
    throw new PolicyError(
      `${method}: the policy is a function, whose limits differ: expected one policy for all requests`,
    )
  }
  return {
    count(key, request, response) {
      if (!isFunction) return decide(key)
      return after(policy(request, response), given => {
        current = given
        return decide(key)
      })
    },
    giveBack: (_, { decision }) => limiter.settle(decision!, 0),
    resetKey: key => only('resetKey').reset(key),
    async getKey(key) {
      const { totalHits, resetTime } = countOf(await only('getKey').peek(key, 0))
      return totalHits === 0 ? undefined : { totalHits, resetTime }
    },
  }
}

/**
 * A decision in the terms of express-rate-limit. A refused request reports one hit more than the limit, though it spent
 * nothing: handlers compare `used` with `limit`.
 */
function decisionCount(decision: Decision): Count {
  const { allowed, remaining, retryAfterMs, resetAfterMs, delayMs } = decision
  const { quota: limit, windowMs } = decision.limit
  const waitMs = allowed ? resetAfterMs : retryAfterMs
  return {
    totalHits: allowed ? Math.max(0, limit - remaining) : limit + 1,
    resetTime: new Date(Date.now() + (Number.isFinite(waitMs) ? waitMs : windowMs)),
    limit,
    windowMs,
    delayMs,
    decision,
  }
}

function policyOf(
  { algorithm = 'fixed-window', limit, windowMs, policy }: Options,
  passed: RateLimitOptions,
): NonNullable<Options['policy']> {
  const other = (['limit', 'max', 'windowMs', 'algorithm'] as const).find(name => passed[name] !== undefined)
  if (policy !== undefined && other !== undefined) {
    throw new PolicyError(
      `rateLimit: given both policy and ${other}, expected one of them: policy has all three, like "100/1m ` +
        'fixed-window"',
    )
  }
  if (policy !== undefined) return policy
  // A text of the environment counts as its number, as in a store of hits.
  const length = windowOf(windowMs)
  const window = typeof length === 'number' ? `${length}ms` : length
  const quotaOf = (limit: unknown) => (typeof limit === 'string' ? Number(limit) : limit) as number
  if (typeof limit !== 'function') return { quota: quotaOf(limit), window, algorithm }
  // Counts belong to the name: a name without the quota keeps them when the quota changes.
  const limitOf = (quota: number): LimitOptions => ({ quota: quotaOf(quota), window, algorithm, name: 'limit' })
  return (request, response) => Promise.resolve(limit(request, response)).then(limitOf)
}
