import type { Bounds } from '../../adaptive/follow-load.js'
import { Deadline } from '../../core/deadline.js'
import { StoreError } from '../../core/errors.js'
import type { RedisClient } from '../../redis/client.js'
import type { LimitEntry, ObjectKind, UsedKind } from '../index-entry.js'
import type { KeyView } from '../view.js'
import { ChangeHistory } from './changes.js'
import { History } from './history.js'
import { HolderNames } from './holder-names.js'
import { type KeyStyle, KeyViews } from './key-views.js'
import { type KnownLimiter, knownLimiters, Limiters } from './limiters.js'
import { LiveLimits, type LiveMeans } from './live-limits.js'
import { Reports } from './reports.js'
import { SharedObjects } from './shared-objects.js'
import { TopCallers } from './top-callers.js'

/** A page does not wait for an object that does not answer: it omits the object. */
export const OBJECT_DEADLINE = new Deadline(1500)
/** Most keys that were shown and can be changed. */
const MOST_REFS = 5000

/** The state that pages and changes share: one for each dashboard. */
export class DashboardState {
  readonly reports: Reports
  readonly history: History
  readonly live: LiveLimits
  readonly limiters: Limiters
  readonly objects: SharedObjects
  readonly changes: ChangeHistory
  readonly keyViews: KeyViews
  readonly #refs = new Map<string, string>()

  constructor(
    readonly client: RedisClient,
    readonly prefix: string,
    style: KeyStyle,
    live: LiveMeans,
  ) {
    this.reports = new Reports(client, prefix)
    this.history = new History(client, this.reports.keys, this.reports)
    this.keyViews = new KeyViews(style, () => this.reports.secret)
    this.live = new LiveLimits(client, prefix, live)
    this.limiters = new Limiters(client, prefix, this.live)
    this.objects = new SharedObjects(client, prefix, new HolderNames(this.reports))
    this.changes = new ChangeHistory(client, this.reports.keys.changes)
  }

  /** Reads new reports. If Redis fails, `reports.failing` says so. */
  async refresh(): Promise<void> {
    await this.reports.refresh()
    if (this.reports.failing === undefined) await OBJECT_DEADLINE.hold(this.live.refresh()).catch(() => {})
  }

  /** A key in its displayed form; viewers may act on it. */
  show(key: string): KeyView {
    const view = this.keyViews.view(key)
    this.#refs.delete(view.ref)
    this.#refs.set(view.ref, key)
    const [oldest] = this.#refs.keys()
    if (this.#refs.size > MOST_REFS && oldest !== undefined) this.#refs.delete(oldest)
    return view
  }

  /** The key behind a ref, which another process may have shown. */
  async keyOf(ref: string): Promise<string | undefined> {
    const known = this.#refs.get(ref)
    if (known !== undefined) return known
    const isMeant = (key: string | undefined) => key !== undefined && this.keyViews.ref(key) === ref
    const called = new TopCallers(this.reports).find(isMeant)
    if (called !== undefined) return called
    const noted = [...(await this.changes.list()), ...this.live.history].find(({ key }) => isMeant(key))
    if (noted !== undefined) return noted.key
    return (await this.limiters.blocks(this.known.filter(({ shared }) => shared))).find(({ key }) => isMeant(key))?.key
  }

  get limits(): LimitEntry[] {
    return [...this.reports.entries.values()].filter(entry => entry.kind === 'limit')
  }

  get known(): KnownLimiter[] {
    return knownLimiters(this.limits)
  }

  /** The objects of a kind that a service, or any, uses. */
  names(kind: ObjectKind, service?: string): string[] {
    const isUsed = this.usedBy(service)
    const names = [...this.reports.entries.values()].filter(entry => entry.kind === kind).map(({ name }) => name)
    return names.filter(name => isUsed(kind, name)).sort()
  }

  /** Whether a service uses something; undefined: any service. */
  usedBy(service: string | undefined): (kind: UsedKind, name: string) => boolean {
    if (service === undefined) return () => true
    const used = new Set<string>()
    for (const entry of this.reports.entries.values()) {
      if (entry.kind === 'use' && entry.name === service) used.add(`${entry.of} ${entry.object}`)
    }
    return (kind, name) => used.has(`${kind} ${name}`)
  }

  /** Within what followLoad steers a rate, if it was told to. */
  boundsOf(rate: string): Bounds | undefined {
    for (const entry of this.reports.entries.values()) {
      if (entry.kind === 'follower' && entry.name === rate) return entry.bounds
    }
    return undefined
  }

  /** Throws while Redis is unreachable. */
  checkRedis(): void {
    const { failing } = this.reports
    if (failing !== undefined) throw new StoreError(`Redis does not answer: ${failing.reason}`)
  }
}
