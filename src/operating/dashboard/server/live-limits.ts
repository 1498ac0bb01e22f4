import { PolicyError, shown } from '../../../limiter/core/errors.js'
import type { Policy, PolicyInput } from '../../../limiter/core/limit.js'
import type { Listed } from '../../../limiter/core/listed.js'
import { getOrMake } from '../../../limiter/core/maps.js'
import type { RedisClient } from '../../../redis/client.js'
import { type Change, type LimitState, liveChange, livePolicy, policyText } from '../../live/live-limit.js'
import type { LivePolicies } from '../../live/live-policies.js'
import { type ChangeEnd, LiveRecords, type NamedLimit, type Position } from '../../live/live-records.js'
import { policyWords } from '../look/format.js'
import type { LiveView } from '../view.js'
import { SharedAnswer } from './redis-calls.js'

/**
 * Whether something has changed is asked again after so long; names and defaults that processes have registered are
 * read after so long.
 */
const FRESH_MS = 900
const NAMES_MS = 10_000
const MOST_HISTORY = 200
const MOST_OWN = 50

/**
 * Whether limits can be changed: for the `LivePolicies` of this process, for all that Redis knows (the command), or not
 * at all.
 */
export type LimitWriter = LivePolicies | 'redis' | undefined

/** The live limits of the limiters: their present state and their changes. A limiter's live limit has the same name. */
export class LiveLimits {
  readonly #records: LiveRecords
  #names = new Map<string, NamedLimit>()
  #history: Change[] = []
  #position: Position = { nowMs: 0, epoch: '', seq: -1 }
  #readAt = Number.NEGATIVE_INFINITY
  readonly #news = new SharedAnswer(() => this.#read(), FRESH_MS)
  readonly #defaults = new WeakMap<NamedLimit, Policy>()

  constructor(
    client: RedisClient,
    prefix: string,
    readonly writer: LimitWriter,
  ) {
    this.#records = new LiveRecords(client, 'dashboard', prefix)
  }

  /** Reads what has changed in Redis, unless it was just read. */
  async refresh(force = false): Promise<void> {
    if (force) this.#news.forget()
    await this.#news.get()
  }

  /** All limits are read only when one was changed, or the names were read a while ago. */
  async #read(): Promise<void> {
    if (performance.now() - this.#readAt < NAMES_MS) {
      const { epoch, seq } = this.#position
      const now = await this.#records.since(this.#position)
      this.#position = now
      if (now.epoch === epoch && now.seq === seq) return
    }
    const [found, history] = await Promise.all([
      this.#records.names(this.#names),
      this.#records.history(undefined, MOST_HISTORY),
    ])
    this.#names = new Map(found.names.map(named => [named.name, named]))
    this.#position = found
    this.#history = history
    this.#readAt = performance.now()
  }

  /** Why no limit can be changed here; undefined: it can. */
  get refusal(): string | undefined {
    if (this.writer === undefined) return 'Limits cannot be changed here: dashboard() was given no `live`.'
    return undefined
  }

  /** Whether a limiter has a live limit. */
  has(limiter: string): boolean {
    return this.#names.has(limiter)
  }

  get names(): readonly string[] {
    return [...this.#names.keys()]
  }

  /** The newest changes, newest first. */
  get history(): readonly Change[] {
    return this.#history
  }

  /** The policy for all keys without their own limit. */
  policy(limiter: string): Policy | undefined {
    const named = this.#names.get(limiter)
    if (named === undefined) return undefined
    return named.limit.at(() => this.#position.nowMs)?.policy ?? this.#byDefault(named)
  }

  /** The live limit of a limiter while it holds; undefined: none. */
  view(limiter: string): LiveView | undefined {
    const named = this.#names.get(limiter)
    const live = named?.limit.at(() => this.#position.nowMs)
    if (named === undefined || live === undefined) return undefined
    return this.#viewOf(limiter, undefined, live, this.#byDefault(named))
  }

  /** The live limits that a key has of its own under some limiters. */
  async ownViews(limiters: readonly string[], key: string): Promise<ReadonlyMap<string, LiveView>> {
    const names = limiters.filter(name => this.has(name))
    const limits = names.length === 0 ? [] : await this.#records.ownLimits(names, key)
    const views = new Map<string, LiveView>()
    for (const [i, name] of names.entries()) {
      const live = limits[i].at(() => this.#position.nowMs)
      if (live !== undefined) views.set(name, this.#viewOf(name, key, live, this.policy(name) ?? []))
    }
    return views
  }

  /** Limits that keys have of their own, the newest first. */
  async ownLimits(limiters: readonly string[]): Promise<Listed<Change>> {
    const names = limiters.filter(name => this.has(name))
    return names.length === 0 ? { items: [], more: 0 } : this.#records.list(names, MOST_OWN, true)
  }

  /** The policy of a limiter as its author wrote it, with all its limits; of what is in force for all keys. */
  given(limiter: string): PolicyInput | undefined {
    const named = this.#names.get(limiter)
    return named && (named.limit.at(() => this.#position.nowMs)?.given ?? named.default)
  }

  /** What is set for a limiter or one of its keys, to put it back later. */
  async state(limiter: string, key: string | undefined): Promise<LimitState> {
    const limit =
      key === undefined ? this.#names.get(limiter)?.limit : (await this.#records.ownLimits([limiter], key))[0]
    return limit?.stateAt(this.#position.nowMs) ?? {}
  }

  /** The newest change of a limiter or one of its keys, by whomever; undefined: there is none among the newest. */
  newest(limiter: string, key: string | undefined): Change | undefined {
    return this.#history.find(change => change.name === limiter && change.key === key)
  }

  /**
   * Sets (or with null clears) a limit. Throws `PolicyError` for an invalid limit, and if there is nothing to change.
   */
  async change(
    limiter: string,
    policy: PolicyInput | null,
    options: { readonly key?: string; readonly end?: ChangeEnd; readonly by?: string },
  ): Promise<Change> {
    const { key, end, by } = options
    if (this.writer === undefined) throw new PolicyError(this.refusal ?? '')
    if (!this.has(limiter)) {
      throw new PolicyError(
        `limiter ${shown(limiter)}: has no live limit, expected one of ${this.names.map(shown).join(', ')}`,
      )
    }
    if (policy !== null) livePolicy(limiter, policy)
    return this.#records.change({ name: limiter, key, policy: policy ?? undefined, by }, end)
  }

  #byDefault(named: NamedLimit): Policy {
    return getOrMake(this.#defaults, named, () => livePolicy(named.name, named.default).policy)
  }

  #viewOf(
    limiter: string,
    key: string | undefined,
    live: { readonly given: PolicyInput; readonly policy: Policy },
    byDefault: Policy,
  ): LiveView {
    const last = this.#history.find(
      change => change.name === limiter && change.key === key && change.given !== undefined,
    )
    const { by, until, at } = last === undefined ? {} : liveChange(last)
    return {
      policy: policyText(live.given),
      words: policyWords(live.policy),
      default: policyWords(byDefault),
      until: until?.getTime(),
      by,
      at: at?.getTime(),
    }
  }
}
