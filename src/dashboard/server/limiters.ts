import { StoreError } from '../../core/errors.js'
import { getOrMake } from '../../core/get-or-make.js'
import { type Limit, optionsOf, type Policy } from '../../core/limit.js'
import { readAddress } from '../../http/address/address.js'
import { maskedAddress } from '../../http/address/masked-address.js'
import { RateLimiter } from '../../limiter/rate-limiter.js'
import { policyText } from '../../live/live-policy.js'
import type { ClientPort, RedisClient } from '../../redis/client.js'
import { keySegment } from '../../redis/keys.js'
import { portOf } from '../../redis/port-of.js'
import { runScript } from '../../redis/run-script.js'
import { dashboardBlocked, dashboardBlocks } from '../../redis/scripts.js'
import { ChargeKeys } from '../../stores/redis/charge-keys.js'
import { RedisStore } from '../../stores/redis/redis-store.js'
import type { LimitEntry } from '../index-entry.js'
import type { KeyLimiterView } from '../view.js'
import type { LiveLimits } from './live-limits.js'

const DEADLINE = '1s'
const MOST_LISTS = 100
const MOST_BLOCKS = 20

/** One limiter with its limits. */
export interface KnownLimiter {
  readonly name: string
  readonly entries: readonly LimitEntry[]
  /** False: it counts in the memory of its processes. */
  readonly shared: boolean
}

export interface Block {
  readonly limiter: string
  readonly key: string
  readonly until: number
}

/** The limiters by name: the state of their keys, and changes. Every method rejects with `StoreError` when Redis fails. */
export class Limiters {
  readonly #port: ClientPort
  readonly #stores = new Map<number | undefined, RedisStore>()

  constructor(
    readonly client: RedisClient,
    readonly prefix: string,
    readonly live: LiveLimits,
  ) {
    this.#port = portOf(client, 'dashboard')
  }

  /** The state of a key at a moment of the server's clock; undefined: none. */
  async look(limiter: KnownLimiter, key: string, now: number): Promise<KeyLimiterView | undefined> {
    const made = this.#limiter(limiter)
    const [standing, asked, live, blockedUntil] = await Promise.all([
      made.peek(key, 0),
      made.peek(key, 1),
      this.live.ownView(limiter.name, key),
      this.blockedUntil(limiter, key, now),
    ])
    if (standing.degraded || asked.degraded) throw new StoreError('Redis did not answer')
    const used = standing.verdicts.some(
      ({ remaining, limit, resetAfterMs }) => remaining < most(limit) || resetAfterMs > 0,
    )
    if (!used && blockedUntil === undefined && live === undefined) return undefined
    const given = this.live.given(limiter.name)
    return {
      limiter: limiter.name,
      changeable: given !== undefined && this.live.refusal === undefined,
      policy: policyText(given ?? this.#policy(limiter).map(optionsOf)),
      ...(blockedUntil !== undefined && { blockedUntil }),
      ...(live !== undefined && { live }),
      limits: standing.verdicts.map(({ limit, remaining, resetAfterMs }, i) => ({
        id: limiter.entries.find(entry => entry.limit.name === limit.name)?.id ?? limit.name,
        limit: limit.name,
        facts: limit,
        ...perOf(limiter, limit),
        remaining,
        most: most(limit),
        resetAfterMs: finite(resetAfterMs),
        retryAfterMs: finite(asked.verdicts[i]?.retryAfterMs ?? 0),
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

  /** The end of a key's block; undefined: it is not blocked. A verdict cannot tell it: there the limit itself may last longer. */
  async blockedUntil(limiter: KnownLimiter, key: string, now: number): Promise<number | undefined> {
    const keys = this.#keys(limiter)
    const charges = this.#policy(limiter).map(limit => ({ key, limit, limiter: limiter.name, cost: 1 }))
    const [tag] = charges.map(charge => keys.tagOf(charge))
    if (tag === undefined) return undefined
    const lists = charges.map(charge => keys.blockListOf(charge, tag))
    const members = charges.map(charge => keys.keyOf(charge, tag))
    const until = Number(await runScript(this.#port, dashboardBlocked, lists, members))
    return until > now ? until : undefined
  }

  /** The keys blocked now, under any of these limits: for each limit the 20 whose blocks end last. */
  async blocks(limiters: readonly KnownLimiter[]): Promise<Block[]> {
    const lists = limiters.flatMap(limiter =>
      this.#policy(limiter).flatMap(limit =>
        this.#blockLists(limiter, limit).map(list => ({ list, limiter: limiter.name })),
      ),
    )
    const found = new Map<string, Block>()
    // In a cluster each list is in a slot of its own.
    const size = this.#port.cluster ? 1 : MOST_LISTS
    for (let i = 0; i < lists.length; i += size) {
      const some = lists.slice(i, i + size)
      const reply = await runScript(
        this.#port,
        dashboardBlocks,
        some.map(({ list }) => list),
        [String(MOST_BLOCKS)],
      )
      for (const [j, rows] of (reply as string[][]).entries()) {
        for (let k = 0; k < rows.length; k += 2) {
          const [key, until] = [this.#keyIn(rows[k]), Number(rows[k + 1])]
          const { limiter } = some[j]
          const known = found.get(`${limiter} ${key}`)
          if (key !== undefined && (known === undefined || known.until < until))
            found.set(`${limiter} ${key}`, { limiter, key, until })
        }
      }
    }
    return [...found.values()].sort((a, b) => b.until - a.until)
  }

  #blockLists(limiter: KnownLimiter, limit: Limit): string[] {
    const keys = this.#keys(limiter)
    const tags = this.#port.cluster ? tagsOf(limiter) : 1
    return Array.from({ length: tags }, (_, tag) => keys.blockListOf({ key: '', limit, limiter: limiter.name }, tag))
  }

  #keys(limiter: KnownLimiter): ChargeKeys {
    return new ChargeKeys(keySegment(this.prefix), this.#port, tagsOf(limiter))
  }

  /** The client's key in the key of its state: see `ChargeKeys`. */
  #keyIn(member: string): string | undefined {
    const [, tagged, segment] = /\{([^}]*)\}(?::([^:]*(?::[^:]*)*):[^:]*:[^:]*:[^:]*$)?/.exec(member) ?? []
    const text = this.#port.cluster ? segment : tagged
    if (text === undefined) return undefined
    return text.replace(/%u([0-9a-f]{1,4})|%([0-9a-f]{2})/g, (_, wide?: string, narrow?: string) =>
      String.fromCharCode(Number.parseInt(wide ?? narrow ?? '', 16)),
    )
  }

  #limiter(limiter: KnownLimiter): RateLimiter {
    const { name, entries } = limiter
    return new RateLimiter({
      policy: this.#policy(limiter).map(optionsOf),
      name,
      store: this.#store(entries[0]?.tags),
      deadline: DEADLINE,
      onStoreFailure: 'closed',
      denyCache: 0,
    })
  }

  #policy({ name, entries }: KnownLimiter): Policy {
    const live = this.live.policy(name)
    if (live !== undefined) return live
    // A limit whose window was changed has two entries for a day: the later one applies.
    return [...new Map(entries.map(({ limit }) => [limit.name, limit])).values()]
  }

  #store(tags: number | undefined): RedisStore {
    return getOrMake(
      this.#stores,
      tags,
      () => new RedisStore(this.client, { prefix: this.prefix, ...(tags !== undefined && { tags }) }),
    )
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

function most({ quota, burst }: Limit): number {
  return quota === 0 ? 0 : burst
}

function finite(ms: number): number {
  return Number.isFinite(ms) ? ms : Number.MAX_SAFE_INTEGER
}

function perOf({ entries }: KnownLimiter, limit: Limit): { per?: string } {
  const per = entries.find(entry => entry.limit.name === limit.name)?.per
  return per === undefined ? {} : { per }
}
