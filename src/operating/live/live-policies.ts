import { asyncDispose } from '../../limiter/core/async-dispose.js'
import { type Duration, parseOption } from '../../limiter/core/duration.js'
import { PolicyError, StoreError, shown } from '../../limiter/core/errors.js'
import type { Policy, PolicyInput } from '../../limiter/core/limit.js'
import { type InspectOptions, type Listed, listLimit } from '../../limiter/core/listed.js'
import { notify, type Observer, parseObserver } from '../../limiter/core/observer.js'
import { checkFunction, checkOptions, type OptionNames } from '../../limiter/core/options.js'
import { emitWarning, type OutageWarnings } from '../../limiter/core/warnings.js'
import type { RedisClient } from '../../redis/client.js'
import { redisWarnings } from '../../redis/clients.js'
import { Follower } from './follower.js'
import {
  type Change,
  checkLiveName,
  type LiveChange,
  LiveLimit,
  type LivePolicy,
  liveChange,
  livePolicy,
} from './live-limit.js'
import { LiveRecords, type Position } from './live-records.js'
import { OwnLimits } from './own-limits.js'

/** Options of `LivePolicies`. A mistake, or an unknown name, throws `PolicyError` when it is built. */
export interface LivePoliciesOptions {
  /**
   * The limits of each name while nothing is set: at least one name, 1 to 60 printable ASCII characters without space
   * and ";".
   */
  defaults: Record<string, PolicyInput>
  /** Default 'spillway': the beginning of the keys and the channel in Redis. */
  prefix?: string
  /**
   * Default: none. Receives failures (`storeFailed`). Without an observer, an outage causes process warnings
   * (SPILLWAY_STORE).
   */
  observer?: Observer
}

/** Options of `LivePolicies.set`. */
export interface LiveSetOptions {
  /** The key that gets its own limit, like 'tenant:42'. Default: the limit of all keys without their own. */
  key?: string
  /** When it ends by itself: a future moment, or a duration from now, more than 0. Default: never. */
  until?: Date | Duration
  /** The user who sets it, for the history, like 'ana@example.com'. Default: nobody. */
  by?: string
}

/** Options of `LivePolicies.clear`. */
export interface LiveClearOptions {
  /** The key whose own limit is cleared, like 'tenant:42'. Default: the limit of the name. */
  key?: string
  /** The user who clears it, for the history, like 'ana@example.com'. Default: nobody. */
  by?: string
}

/** Options of `LivePolicies.list`. */
export interface LiveListOptions extends InspectOptions {
  /** Only the limits of this name and of its keys, like 'api'. Default: all names. */
  name?: string
}

const LIST_OPTIONS: OptionNames<LiveListOptions> = { name: true, limit: true }
const OPTIONS: OptionNames<LivePoliciesOptions> = { defaults: true, prefix: true, observer: true }
const SET_OPTIONS: OptionNames<LiveSetOptions> = { key: true, until: true, by: true }
const CLEAR_OPTIONS: OptionNames<LiveClearOptions> = { key: true, by: true }
const MOST_HISTORY = 100
const MEANWHILE = 'the limits that were known last stay in force'
/** Most remembered keys with their own limits, over all names, but at least `KEYS_OF_NAME` for each. */
const KEYS_IN_MEMORY = 50_000
const KEYS_OF_NAME = 500
const REGISTER_EVERY_MS = 3_600_000

interface Name {
  readonly default: LivePolicy
  limit: LiveLimit
  readonly own: OwnLimits
}

/**
 * Limits that can be changed while the service runs, for all keys or for one, in every process that shares the Redis
 * and the prefix.
 *
 * Decisions read memory only. A change is in force in every process within 1 s; after a lost connection within 1 s of
 * the reconnect; after a lost message within 5 s. While Redis is away the last known limits stay; a process that starts
 * then uses the defaults until Redis is back. A limit without a name is named after the live name ('api', then
 * 'api-2'), so counts continue when its quota changes, as long as algorithm and window stay; a token-bucket or
 * leaky-bucket keeps the share that is left, also when burst or window change.
 */
export class LivePolicies {
  readonly #records: LiveRecords
  readonly #follower: Follower
  readonly #names = new Map<string, Name>()
  readonly #listeners = new Set<(change: LiveChange) => void>()
  readonly #observer: Observer | undefined
  readonly #warnings: OutageWarnings | undefined
  readonly #serverNowMs = () => this.#follower.serverNowMs()
  #registeredAt = Number.NEGATIVE_INFINITY
  #registeredEpoch: string | undefined
  #closed = false

  /**
   * Usable at once, with the defaults; reads the set limits in the background. Throws `PolicyError` for invalid
   * options.
   */
  constructor(client: RedisClient, options: LivePoliciesOptions) {
    checkOptions('LivePolicies', options, OPTIONS, '{ defaults: { api: "100/1m" } }')
    this.#observer = parseObserver(options.observer, 'LivePolicies')
    this.#records = new LiveRecords(client, 'LivePolicies', options.prefix)
    if (this.#observer === undefined) this.#warnings = redisWarnings(client, MEANWHILE)
    const { defaults } = options
    const isRecord = typeof defaults === 'object' && defaults !== null && !Array.isArray(defaults)
    const names = isRecord ? Object.entries(defaults) : []
    if (names.length === 0) {
      throw new PolicyError(
        `LivePolicies: defaults ${shown(defaults)}: expected a policy for each name, like { api: "100/1m" }`,
      )
    }
    const size = Math.max(KEYS_OF_NAME, Math.floor(KEYS_IN_MEMORY / names.length))
    const failed = (error: Error) => this.#failed(error)
    const isCurrent = (epoch: string) => {
      if (this.#follower.isCurrent(epoch)) return true
      this.#follower.ask()
      return false
    }
    for (const [name, given] of names) {
      checkLiveName(name)
      const own = new OwnLimits(name, this.#records, size, isCurrent, failed)
      this.#names.set(name, { default: livePolicy(name, given), limit: new LiveLimit(0), own })
    }
    this.#follower = new Follower(client, this.#records, {
      apply: change => this.#apply(change),
      tell: change => this.#tell(change),
      load: () => this.#load(),
      answered: () => this.#answered(),
      failed,
    })
  }

  /**
   * For the option `policy` of `rateLimit` or `RateLimiter`: a function that returns the limits in force now, from
   * memory. `keyOf` returns the key that may have its own limits, from the same arguments; undefined, or no `keyOf`:
   * the limits of the name. Throws `PolicyError` for an unknown name.
   */
  policy<Context extends readonly unknown[]>(
    name: string,
    keyOf?: (...context: Context) => string | undefined,
  ): (...context: Context) => PolicyInput {
    const found = this.#name(name)
    if (keyOf === undefined) return () => this.#inForce(found, undefined).input
    checkFunction(keyOf, 'LivePolicies: keyOf', 'req => req.user?.id')
    return (...context) => this.#inForce(found, keyOf(...context)).input
  }

  /**
   * The limits in force now, for a name or for one of its keys, from memory. Throws `PolicyError` for an unknown name.
   */
  for(name: string, key?: string): Policy {
    return this.#inForce(this.#name(name), optionalText(key, 'key')).policy
  }

  /**
   * Sets the limits of a name, or of one key, in all processes; in this one when the promise resolves. A limit with
   * `until` holds until then; the earlier limit without `until` holds again afterwards. If two are set at once the last
   * one stands, and both are in the history.
   *
   * Rejects with `PolicyError` for an unknown name and for an invalid policy or option; then nothing has changed.
   * Rejects with `StoreError` when Redis fails, at the latest after 5 s; then it is unknown whether the limit changed.
   */
  async set(name: string, policy: PolicyInput, options: LiveSetOptions = {}): Promise<void> {
    this.#name(name)
    checkOptions('LivePolicies.set', options, SET_OPTIONS, '{ key: "user:42", until: "1h", by: "ann" }')
    const { given } = livePolicy(name, policy)
    const { key, until, by } = options
    const end = endOf(until)
    await this.#change({ name, key: optionalText(key, 'key'), policy: given, by: optionalText(by, 'by') }, end)
  }

  /**
   * Clears the limits of a name, or of one key: its default, or the limits of the name, hold again. Rejects as `set`
   * does; if nothing was set, only the history changes.
   */
  async clear(name: string, options: LiveClearOptions = {}): Promise<void> {
    this.#name(name)
    checkOptions('LivePolicies.clear', options, CLEAR_OPTIONS, '{ key: "user:42", by: "ann" }')
    await this.#change({ name, key: optionalText(options.key, 'key'), by: optionalText(options.by, 'by') }, {})
  }

  /**
   * The newest 100 changes, newest first: of all names, or of one name and its keys. Rejects with `StoreError` when
   * Redis fails.
   */
  async history(name?: string): Promise<LiveChange[]> {
    if (name !== undefined) this.#name(name)
    return (await this.#records.history(name, MOST_HISTORY)).map(liveChange)
  }

  /**
   * The limits in force that are not the defaults, of all names and their keys or of one name: 50, or `limit` (0 to
   * 1000). Those of names come first, then those of keys; each the newest first, as far as they are read: of more keys
   * than that, any. One call of Redis that changes nothing, for up to 500 names. Throws `PolicyError` for an unknown
   * name and for an invalid option; rejects with `StoreError` when Redis fails.
   *
   * @example
   * const { items, more } = await live.list({ name: 'api' })
   * for (const { key, policy, until, by } of items) console.log(key ?? 'all', policy, until, by)
   */
  async list(options: LiveListOptions = {}): Promise<Listed<LiveChange>> {
    checkOptions('LivePolicies.list', options, LIST_OPTIONS, '{ name: "api", limit: 50 }')
    const { name } = options
    const limit = listLimit(options.limit, 'LivePolicies.list')
    if (name !== undefined) this.#name(name)
    const { items, more } = await this.#records.list(name === undefined ? [...this.#names.keys()] : [name], limit)
    return { items: items.map(liveChange), more }
  }

  /**
   * Calls back for each change of these names, once and in their order, when this process follows it; not when a limit
   * ends by itself. If more than 1000 changes were missed in one outage, they are not reported. Returns a function that
   * ends it. An error of the listener becomes a process warning.
   */
  onChange(listener: (change: LiveChange) => void): () => void {
    if (typeof listener !== 'function') {
      throw new PolicyError(`LivePolicies: onChange ${shown(listener)}: expected a function`)
    }
    const own = (change: LiveChange) => listener(change)
    this.#listeners.add(own)
    return () => this.#listeners.delete(own)
  }

  /** Stops following. The limits known last stay in force; the client stays open. */
  async close(): Promise<void> {
    this.#closed = true
    this.#follower.close()
    for (const { own } of this.#names.values()) own.close()
    this.#listeners.clear()
  }

  /** Closes it, for `await using`. */
  [asyncDispose](): Promise<void> {
    return this.close()
  }

  #name(name: string): Name {
    const found = this.#names.get(name)
    if (found !== undefined) return found
    const names = [...this.#names.keys()].slice(0, 20).map(shown).join(', ')
    throw new PolicyError(`LivePolicies: unknown name ${shown(name)}: expected one of defaults: ${names}`)
  }

  #inForce({ default: byDefault, limit, own }: Name, key: string | undefined): LivePolicy {
    const ofKey = key === undefined ? undefined : own.at(key, this.#serverNowMs)
    return ofKey ?? limit.at(this.#serverNowMs) ?? byDefault
  }

  async #change(text: Parameters<LiveRecords['change']>[0], end: Parameters<LiveRecords['change']>[1]): Promise<void> {
    if (this.#closed) throw new StoreError('LivePolicies: was closed and can no longer change limits')
    await this.#follower.begin()
    const askedAt = performance.now()
    await this.#follower.applyOwn(await this.#records.change(text, end), askedAt)
  }

  #apply(change: Change): void {
    const name = this.#names.get(change.name)
    if (name === undefined) return
    if (change.key === undefined) name.limit.apply(change)
    else name.own.apply(change)
  }

  #tell(change: Change): void {
    if (!this.#names.has(change.name)) return
    const told = liveChange(change)
    for (const listener of this.#listeners) {
      try {
        listener(told)
      } catch (error) {
        const message = `LivePolicies: a listener of onChange threw: ${(error as Error)?.message ?? error}`
        emitWarning('SPILLWAY_OBSERVER', message)
      }
    }
  }

  async #load(): Promise<Position & { use(): void }> {
    const names = [...this.#names]
    const loaded = await this.#records.load(names.map(([name]) => name))
    const use = () => {
      for (const [i, [, name]] of names.entries()) {
        const { limit, hasKeys } = loaded.limits[i]
        name.limit = limit
        name.own.reload(hasKeys)
      }
    }
    return { ...loaded, use }
  }

  #answered(): void {
    this.#warnings?.answered()
    for (const { own } of this.#names.values()) own.resume()
    this.#register()
  }

  /** Again after an hour, so that names in use are not forgotten, and when Redis has lost its data. */
  #register(): void {
    const nowMs = performance.now()
    const epoch = this.#follower.epoch
    if (nowMs - this.#registeredAt < REGISTER_EVERY_MS && this.#registeredEpoch === epoch) return
    this.#registeredAt = nowMs
    this.#registeredEpoch = epoch
    const defaults = new Map([...this.#names].map(([name, { default: byDefault }]) => [name, byDefault.given]))
    this.#records.register(defaults).catch(error => {
      this.#registeredAt = Number.NEGATIVE_INFINITY
      this.#failed(error)
    })
  }

  #failed(error: Error): void {
    if (this.#closed) return
    notify(this.#observer, 'storeFailed', error)
    this.#warnings?.failed(error)
  }
}

const EXAMPLES = { key: 'user:42', by: 'ann' } as const

function optionalText(value: unknown, option: keyof typeof EXAMPLES): string | undefined {
  if (value === undefined || typeof value === 'string') return value
  throw new PolicyError(`LivePolicies: ${option} ${shown(value)}: expected a text, like "${EXAMPLES[option]}"`)
}

function endOf(until: Date | Duration | undefined): { atMs?: number; afterMs?: number } {
  if (until === undefined) return {}
  if (!(until instanceof Date)) return { afterMs: parseOption(until, 'LivePolicies: until') }
  const atMs = until.getTime()
  if (atMs > Date.now()) return { atMs }
  throw new PolicyError(
    `LivePolicies: until ${Number.isNaN(atMs) ? 'an invalid Date' : until.toISOString()}: expected a moment to ` +
      'come, or a duration like "1h"',
  )
}
