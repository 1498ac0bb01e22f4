import { LeasedCounts } from './leases/leased-counts.js'
import { type LeaseOptions, parseLeases } from './leases/terms.js'
import { noteLimitsOf } from './operating/object-index.js'
import type { RedisClient } from './redis/client.js'
import { connectionOf } from './redis/clients.js'
import type { RedisCounts } from './redis/store/redis-counts.js'
import {
  type CountsFeature,
  type RedisStoreOptions as CountsOptions,
  RedisStore as StoreInRedis,
} from './redis/store/redis-store.js'
import { RedisLines } from './waiting/line/limiter-lines.js'

export type { CalendarRule, CalendarWindow } from './limiter/core/calendar.js'
export type { Clock } from './limiter/core/clock.js'
export type { Decision, DecisionSource, Verdict } from './limiter/core/decision.js'
export { type Duration, parseDuration } from './limiter/core/duration.js'
export {
  CostError,
  LeaseLostError,
  NotInitializedError,
  PolicyError,
  SpillwayError,
  StaleDeliveryError,
  StoreError,
  TimeoutError,
} from './limiter/core/errors.js'
export {
  type AlgorithmName,
  type CalendarLimitOptions,
  type Limit,
  type LimitOptions,
  type Policy,
  type PolicyInput,
  parsePolicy,
} from './limiter/core/limit.js'
export type { InspectOptions, Listed } from './limiter/core/listed.js'
export { type Hold, type Observer, observers } from './limiter/core/observer.js'
export type { WaitOptions } from './limiter/core/wait.js'
export { countName } from './limiter/count-name.js'
export type { StoreFailure } from './limiter/fallback.js'
export type { KeyInput, LimiterKey } from './limiter/key.js'
export { MemoryStore, type MemoryStoreOptions } from './limiter/memory/memory-store.js'
export { RateLimiter, type RateLimiterOptions } from './limiter/rate-limiter.js'
export type { Charge, Store } from './limiter/store.js'
export type { RedisClient } from './redis/client.js'
export type { BlockedKey, StoreInspectOptions, StoreView } from './redis/store/blocked-keys.js'
export type { Backoff } from './waiting/queue/backoff.js'
export type { ConsumeOptions, Limiter, ReceiveOptions } from './waiting/queue/consume-options.js'
export type { Consumer } from './waiting/queue/consumer.js'
export type { DeadLetter } from './waiting/queue/dead-letters.js'
export { DelayQueue } from './waiting/queue/delay-queue.js'
export type { Delivery } from './waiting/queue/delivery.js'
export type { Codec, DelayQueueOptions, PushOptions } from './waiting/queue/options.js'
export type {
  MessageState,
  MessageView,
  QueueInspectOptions,
  QueueStats,
  QueueView,
} from './waiting/queue/queue-look.js'
export type { RateConfig, RateOptions, RateView } from './waiting/rate/options.js'
export { SharedRateLimiter, type SharedRateLimiterOptions } from './waiting/rate/shared-rate-limiter.js'
export type { LeaseInfo, SemaphoreView } from './waiting/semaphore/commands.js'
export type { Lease } from './waiting/semaphore/lease.js'
export { type AcquireOptions, Semaphore, type SemaphoreOptions } from './waiting/semaphore/semaphore.js'

/** Options of a `RedisStore`. An invalid value or an unknown name throws `PolicyError` when the store is built. */
export interface RedisStoreOptions extends CountsOptions {
  /**
   * Default false. true: a process buys units of a busy key in advance and spends them without asking Redis. The limit
   * is never exceeded, with any number of processes, through crashes and pauses. Redis decides keys that are not busy,
   * and limits too small to divide, as before. Not for 'leaky-bucket' (with `{ … }`: `PolicyError` when a limiter with
   * such a limit is built; with true: Redis decides). A request may be denied while other processes hold unspent units.
   */
  leases?: boolean | LeaseOptions
}

/**
 * State in Redis, shared by all processes with the same server, prefix and limiter name. The server decides, by its own
 * clock, in one script call; decisions in one turn of the event loop share that call.
 */
export class RedisStore extends StoreInRedis {
  /**
   * `client`: a `Redis` or `Cluster` of ioredis or iovalkey, a client, cluster or sentinel of node-redis, a
   * `GlideClient` or `GlideClusterClient`, a `Redis` of @upstash/redis (Redis over HTTP), or a
   * `RedisClient` of Bun. The store never closes it.
   */
  constructor(client: RedisClient, options: RedisStoreOptions = {}) {
    super(connectionOf(client, 'RedisStore'), options, counts => featuresOf(counts, options), { leases: true })
  }
}

/** What a `RedisStore` has beside its counts. */
function featuresOf(store: RedisCounts, { leases: given }: RedisStoreOptions): CountsFeature {
  noteLimitsOf(store)
  const settings = parseLeases(given, 'RedisStore')
  if (settings === undefined) {
    store.lines = guard => new RedisLines(store, guard)
    return { counts: store }
  }
  const counts = new LeasedCounts(store, settings)
  counts.lines = guard => new RedisLines(store, guard, counts.leases)
  return { counts, close: () => counts.leases.close() }
}
