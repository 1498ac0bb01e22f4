import { maskedAddress, readAddress } from '../../../http/address/address.js'
import { maxCostOf, optionsOf, type Policy } from '../../../limiter/core/limit.js'
import { getOrMake } from '../../../limiter/core/maps.js'
import { limiterKey } from '../../../limiter/key.js'
import { RateLimiter, standing } from '../../../limiter/rate-limiter.js'
import type { ClientPort, RedisClient } from '../../../redis/client.js'
import { connectionOf, portOf } from '../../../redis/clients.js'
import type { BlockedKey, StoreInspectOptions, StoreView } from '../../../redis/store/blocked-keys.js'
import { RedisStore } from '../../../redis/store/redis-store.js'
import { policyText } from '../../live/live-limit.js'
import type { LimitEntry } from '../records.js'
import type { LiveView } from '../view.js'
import type { LiveLimits } from './live-limits.js'
import { type IsViewerThere, ViewerGone } from './redis-calls.js'

const DEADLINE = '1s'
/** Lists of blocks that are read: on a cluster a limit has as many as its store has tags. */
const MOST_LISTS = 6400
const MAX_BLOCKS = 50
/** Limiters of one question. */
const AT_ONCE = 50
const MOST_MADE = 2000

/** One limiter with its limits. */
export interface KnownLimiter {
  readonly name: string
  readonly entries: readonly LimitEntry[]
  /** False: it does not count in this Redis. */
  readonly shared: boolean
}

/** The blocks that were found. */
export interface Blocks {
  readonly blocks: readonly BlockedKey[]
  /** How many more there are, at least. */
  readonly more: number
  /** Limiters whose lists were not read, because there are too many. */
  readonly unread: number
}

/** What is known of a key under one limiter; undefined: nothing. */
export type KeyState = Awaited<ReturnType<Limiters['look']>>[number]

/**
 * The limiters by name: the state of their keys, and changes. Every method rejects with `StoreError` when Redis fails.
 */
export class Limiters {
  readonly #port: ClientPort
  readonly #stores = new Map<number | undefined, RedisStore>()
  readonly #made = new Map<string, { readonly of: string; readonly limiter: RateLimiter }>()

  constructor(
    readonly client: RedisClient,
    readonly prefix: string,
    readonly live: LiveLimits,
  ) {
    this.#port = portOf(client, 'dashboard')
  }

  /** Whether it talks to a cluster, where a limit has a list of blocks for each tag. */
  get cluster(): boolean {
    return this.#port.cluster
  }

  /**
   * The state of a key under some limiters: undefined where there is none, rejected where it cannot be read.
   */
  async look(limiters: readonly KnownLimiter[], key: string) {
    const names = limiters.map(({ name }) => name)
    const shared = Promise.all([this.live.ownViews(names, key), this.#blockEnds(limiters, key)])
    return Promise.allSettled(limiters.map(limiter => this.#look(limiter, key, shared)))
  }

  async #look(
    limiter: KnownLimiter,
    key: string,
    shared: Promise<readonly [own: ReadonlyMap<string, LiveView>, ends: ReadonlyMap<string, number>]>,
  ) {
    const [[state, asked], [own, ends]] = await Promise.all([
      Promise.all([0, 1].map(cost => standing(this.#limiter(limiter), limiterKey(key), cost))),
      shared,
    ])
    const live = own.get(limiter.name)
    const blockedUntil = ends.get(limiter.name)
    const used = state.some(({ remaining, limit, resetAfterMs }) => remaining < maxCostOf(limit) || resetAfterMs > 0)
    if (!used && blockedUntil === undefined && live === undefined) return undefined
    const given = this.live.given(limiter.name)
    return {
      limiter: limiter.name,
      changeable: given !== undefined && this.live.refusal === undefined,
      /** All limits of the limiter that are in force for keys without their own, as their author wrote them. */
      policy: policyText(given ?? this.#policy(limiter).map(optionsOf)),
      blockedUntil,
      live,
      limits: state.map(({ limit, remaining, resetAfterMs }, i) => ({
        id: limiter.entries.find(entry => entry.limit.name === limit.name)?.id ?? limit.name,
        limit: limit.name,
        facts: limit,
        per: limiter.entries.find(entry => entry.limit.name === limit.name)?.per,
        remaining,
        most: maxCostOf(limit),
        resetAfterMs: finite(resetAfterMs),
        retryAfterMs: finite(asked[i]?.retryAfterMs ?? 0),
      })),
    }
  }

  reset(limiter: KnownLimiter, key: string): Promise<void> {
    return this.#limiter(limiter).reset(key)
  }

  block(limiter: KnownLimiter, key: string, forMs: number): Promise<void> {
    return this.#limiter(limiter).block(key, forMs)
  }

  unblock(limiter: KnownLimiter, key: string): Promise<void> {
    return this.#limiter(limiter).unblock(key)
  }

  /**
   * The end of a key's block; undefined: it is not blocked. A verdict cannot tell it: there the limit itself may last
   * longer.
   */
  async blockedUntil(limiter: KnownLimiter, key: string): Promise<number | undefined> {
    return (await this.#blockEnds([limiter], key)).get(limiter.name)
  }

  /** The ends of a key's blocks, by the limiters' names. */
  async #blockEnds(limiters: readonly KnownLimiter[], key: string): Promise<ReadonlyMap<string, number>> {
    const found = await this.#inspect(limiters, { key, limit: AT_ONCE })
    return new Map(found.flatMap(({ blocked }) => blocked.items.map(({ limiter, until }) => [limiter, until])))
  }

  /**
   * The keys blocked now, under any of these limiters, those whose blocks end last. Of too many the last are left out.
   */
  async blocks(limiters: readonly KnownLimiter[], isViewerThere: IsViewerThere): Promise<Blocks> {
    let lists = 0
    const read = limiters.filter((limiter, i) => {
      lists += this.#policy(limiter).length * (this.#port.cluster ? tagsOf(limiter) : 1)
      return i === 0 || lists <= MOST_LISTS
    })
    const found = await this.#inspect(read, { limit: MAX_BLOCKS }, isViewerThere)
    const items = found.flatMap(({ blocked }) => blocked.items).sort((a, b) => b.until - a.until)
    const more = found.reduce((sum, { blocked }) => sum + blocked.more, Math.max(0, items.length - MAX_BLOCKS))
    return { blocks: items.slice(0, MAX_BLOCKS), more, unread: limiters.length - read.length }
  }

  /** What the stores of some limiters tell of them. */
  async #inspect(
    limiters: readonly KnownLimiter[],
    options: Omit<StoreInspectOptions, 'limiter'>,
    isViewerThere: IsViewerThere = () => true,
  ): Promise<StoreView[]> {
    const byStore = new Map<RedisStore, string[]>()
    for (const limiter of limiters) {
      // Its store knows the limits of a limiter that was built.
      this.#limiter(limiter)
      getOrMake(byStore, this.#storeOf(limiter), () => []).push(limiter.name)
    }
    const found: StoreView[] = []
    for (const [store, names] of byStore) {
      for (let i = 0; i < names.length; i += AT_ONCE) {
        if (!isViewerThere()) throw new ViewerGone('all viewers have gone')
        found.push(await store.inspect({ ...options, limiter: names.slice(i, i + AT_ONCE) }))
      }
    }
    return found
  }

  #limiter(limiter: KnownLimiter): RateLimiter {
    const { name, entries } = limiter
    const policy = this.#policy(limiter).map(optionsOf)
    const of = JSON.stringify([policy, entries[0]?.tags])
    const known = this.#made.get(name)
    if (known?.of === of) return known.limiter
    const made = new RateLimiter({
      policy,
      name,
      store: this.#storeOf(limiter),
      deadline: DEADLINE,
      onStoreFailure: 'closed',
      denyCache: 0,
    })
    this.#made.delete(name)
    this.#made.set(name, { of, limiter: made })
    const [oldest] = this.#made.keys()
    if (this.#made.size > MOST_MADE && oldest !== undefined) this.#made.delete(oldest)
    return made
  }

  #policy({ name, entries }: KnownLimiter): Policy {
    const live = this.live.policy(name)
    if (live !== undefined) return live
    // A limit whose window was changed has two entries for a day: the later one applies.
    return [...new Map(entries.map(({ limit }) => [limit.name, limit])).values()]
  }

  #storeOf({ entries }: KnownLimiter): RedisStore {
    const tags = entries[0]?.tags
    const options = { prefix: this.prefix, ...(tags !== undefined && { tags }) }
    return getOrMake(this.#stores, tags, () => new RedisStore(connectionOf(this.client, 'dashboard'), options))
  }
}

/** The limiters of the index, in the order of their names. */
export function knownLimiters(limits: Iterable<LimitEntry>): KnownLimiter[] {
  const byName = new Map<string, LimitEntry[]>()
  for (const entry of limits) byName.set(entry.name, [...(byName.get(entry.name) ?? []), entry])
  return [...byName]
    .map(([name, entries]) => ({ name, entries, shared: entries.some(({ store }) => store === 'redis') }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** An address in the notation in which it is counted; undefined for anything else. */
export function addressIn(key: string): string | undefined {
  const trimmed = key.trim()
  const counted = readAddress(trimmed) === undefined ? undefined : maskedAddress(trimmed)
  return counted === key ? undefined : counted
}

function tagsOf({ entries }: KnownLimiter): number {
  return entries[0]?.tags ?? 64
}

function finite(ms: number): number {
  return Number.isFinite(ms) ? ms : Number.MAX_SAFE_INTEGER
}
