import { StoreError } from '../../../limiter/core/errors.js'
import type { Listed } from '../../../limiter/core/listed.js'
import type { RedisClient } from '../../../redis/client.js'
import type { Change } from '../../live/live-limit.js'
import type { KeyView } from '../view.js'
import { type Alerts, alertsOf, refusingLimiters } from './alerts.js'
import { ChangeHistory, type Noted } from './change-history.js'
import { EventHistory, type Happened } from './events.js'
import { FleetReports } from './fleet-reports.js'
import { FleetSummary } from './fleet-summary.js'
import { History } from './history.js'
import { HolderNames } from './holder-names.js'
import { type KeyStyle, KeyViews } from './key-views.js'
import { type Blocks, type KeyState, type KnownLimiter, Limiters } from './limiters.js'
import { type LimitWriter, LiveLimits } from './live-limits.js'
import { type IsViewerThere, SharedAnswer, SharedAnswers } from './redis-calls.js'
import { type FoundMessage, type ReadQueue, type ReadRow, SharedObjects } from './shared-objects.js'

/** Pages ask every two seconds: those of several viewers share what was read since the first of them asked. */
const FRESH_MS = 900
/** What happened is longer than other answers, and changes more rarely. */
const EVENTS_MS = 2000
/** What takes many calls is kept longer, but never over a change by any dashboard. */
const MANY_MS = 5000
const FEW_LIMITERS = 100
const FEW_QUEUES = 20
/** Queues whose dead letters are counted. */
const MOST_COUNTED = 200
const MOST_KEPT = 200
/** Limiters of whose alerts blocked keys are left out. */
const MOST_BLAMED = 8

/** The state that pages and changes share: one for each dashboard. */
export class DashboardState {
  readonly reports: FleetReports
  readonly history: History
  readonly live: LiveLimits
  readonly limiters: Limiters
  readonly objects: SharedObjects
  readonly changes: ChangeHistory
  readonly keyViews: KeyViews
  readonly holderNames: HolderNames
  readonly #blocks: SharedAnswers<Blocks>
  readonly #ownLimits = new SharedAnswers<Listed<Change>>(MOST_KEPT, MANY_MS)
  readonly changeHistory: SharedAnswer<Noted>
  readonly happened: SharedAnswer<Happened>
  /** Reads `deadLetters`. */
  readonly dead: SharedAnswer<void>
  readonly #queues = new SharedAnswers<ReadQueue>(MOST_KEPT, FRESH_MS)
  readonly #messages = new SharedAnswers<FoundMessage | undefined>(MOST_KEPT, FRESH_MS)
  readonly sharedRows = new SharedAnswers<ReadRow>(MOST_KEPT, FRESH_MS)
  readonly found = new SharedAnswers<KeyState[]>(MOST_KEPT, FRESH_MS)
  /** How many dead letters each queue has, as last read. */
  deadLetters: ReadonlyMap<string, number> = new Map()
  #summary: FleetSummary | undefined
  /** The keys that are blocked under limiters of which an alert tells, as last read. */
  #blockedKeys: ReadonlyMap<string, ReadonlySet<string>> = new Map()
  #changed = ''

  constructor(
    readonly client: RedisClient,
    readonly prefix: string,
    style: KeyStyle,
    limitWriter: LimitWriter,
  ) {
    this.reports = new FleetReports(client, prefix)
    this.history = new History(client, this.reports.keys, this.reports)
    this.keyViews = new KeyViews(style, () => this.reports.secret)
    this.live = new LiveLimits(client, prefix, limitWriter)
    this.limiters = new Limiters(client, prefix, this.live)
    this.objects = new SharedObjects(client, prefix)
    this.holderNames = new HolderNames(this.reports)
    this.changes = new ChangeHistory(client, this.reports.keys.changes)
    const { cluster } = this.limiters
    this.#blocks = new SharedAnswers(MOST_KEPT, () =>
      cluster || this.summary.known.length > FEW_LIMITERS ? MANY_MS : FRESH_MS,
    )
    this.dead = new SharedAnswer(
      () => this.#countDead(),
      () => (cluster || this.summary.names('queue').length > FEW_QUEUES ? MANY_MS : FRESH_MS),
    )
    const events = new EventHistory(client, this.reports.keys)
    this.happened = new SharedAnswer(() => events.list(), EVENTS_MS)
    // Forgotten when a summary shows a new one.
    this.changeHistory = new SharedAnswer(() => this.changes.list(), MANY_MS)
  }

  /** What pages show of the last reports. */
  get summary(): FleetSummary {
    if (this.#summary?.number !== this.reports.number) this.#summary = new FleetSummary(this.reports, this.#summary)
    return this.#summary as FleetSummary
  }

  /** Reads new reports. If Redis fails, `reports.failing` says so. */
  async refresh(): Promise<void> {
    // Both at once; where Redis is away, nothing else is asked.
    const { entries } = this.reports
    const live = this.isReadable ? this.live.refresh().catch(() => {}) : undefined
    await this.reports.refresh()
    if (this.reports.failing !== undefined) return
    await (live ?? this.live.refresh().catch(() => {}))
    // Another dashboard may have changed something, or there is something new to ask.
    if (this.reports.changed === this.#changed && this.reports.entries === entries) return
    this.#changed = this.reports.changed
    this.forget()
  }

  /** A queue as Redis tells it. */
  queue(name: string, withLetters: boolean): Promise<ReadQueue> {
    const isPlain = this.keyViews.style === 'plain'
    const ask = () => this.objects.queueRow(name, withLetters, isPlain)
    return this.#queues.get(JSON.stringify([name, withLetters]), ask)
  }

  /** A message that is looked up; null: there is none, or it cannot be read. */
  async message(queue: string, id: string): Promise<FoundMessage | null> {
    const isPlain = this.keyViews.style === 'plain'
    const ask = () => this.objects.message(queue, id, isPlain)
    return (await this.#messages.get(JSON.stringify([queue, id]), ask).catch(() => undefined)) ?? null
  }

  /** What was known of a queue that does not answer stays. */
  async #countDead(): Promise<void> {
    const names = this.summary.names('queue').slice(0, MOST_COUNTED)
    const read = await Promise.all(names.map(name => this.queue(name, false).catch(() => undefined)))
    const counts = names.map((name, i) => [name, read[i]?.counts.dead ?? this.deadLetters.get(name) ?? 0] as const)
    this.deadLetters = new Map(counts)
  }

  /** What processes tell of their problems. */
  get alerts(): Alerts {
    const isBlocked = (limiter: string, key: string) => this.#blockedKeys.get(limiter)?.has(key) === true
    return alertsOf(this.summary, key => this.show(key), isBlocked)
  }

  /** Reads which keys are blocked where alerts may blame one. */
  async readBlamed(isViewerThere: IsViewerThere): Promise<void> {
    const shared = new Set(this.sharedLimiters().map(({ name }) => name))
    const names = refusingLimiters(this.summary).filter(name => shared.has(name))
    const read = await Promise.all(
      names.slice(0, MOST_BLAMED).map(async name => {
        const { blocks } = await this.blocksUnder(name, isViewerThere)
        return [name, new Set(blocks.map(({ key }) => key))] as const
      }),
    )
    this.#blockedKeys = new Map(read)
  }

  /** Whether Redis can be asked, as far as is known. */
  get isReadable(): boolean {
    return this.reports.isConnected && this.reports.failing === undefined
  }

  /** Something was changed: whoever looks now must see it. */
  forget(): void {
    for (const answers of [
      this.#blocks,
      this.dead,
      this.changeHistory,
      this.#messages,
      this.#queues,
      this.sharedRows,
      this.found,
    ])
      answers.forget()
  }

  /** The blocks of the limiters that a service, or any, uses: of too many only those of the worst are read. */
  blocks(service: string | undefined, isViewerThere?: IsViewerThere): Promise<Blocks> {
    const ask = (isViewerThere: IsViewerThere) => this.limiters.blocks(this.sharedLimiters(service), isViewerThere)
    return this.#blocks.get(JSON.stringify([service]), ask, isViewerThere)
  }

  /** The blocks of one limiter. */
  blocksUnder(name: string, isViewerThere?: IsViewerThere): Promise<Blocks> {
    const ask = (isViewerThere: IsViewerThere) =>
      this.limiters.blocks(
        this.sharedLimiters().filter(limiter => limiter.name === name),
        isViewerThere,
      )
    return this.#blocks.get(JSON.stringify([undefined, name]), ask, isViewerThere)
  }

  /** Limits that keys have of their own, under the limiters that a service, or any, uses. */
  ownLimits(service: string | undefined): Promise<Listed<Change>> {
    const isUsed = this.summary.usedBy(service)
    const names = this.live.names.filter(name => isUsed === undefined || isUsed('limit', name))
    // Until something is changed, or there are other names.
    const version = JSON.stringify([service, names.length, this.live.history[0]?.seq])
    return this.#ownLimits.get(version, () => this.live.ownLimits(names))
  }

  /** A key in its displayed form; viewers may act on it. */
  show(key: string): KeyView {
    return this.keyViews.view(key)
  }

  /** The key behind a ref, which another process may have shown. */
  async keyOf(ref: string, isViewerThere?: IsViewerThere): Promise<string | undefined> {
    const known = this.keyViews.keyOf(ref)
    if (known !== undefined) return known
    const isMeant = (key: string | undefined) => key !== undefined && this.keyViews.ref(key) === ref
    const called = this.summary.callers.keyOf(ref, key => this.keyViews.ref(key))
    if (called !== undefined) return called
    const noted = [...(await this.changeHistory.get()), ...this.live.history].find(({ key }) => isMeant(key))
    if (noted !== undefined) return noted.key
    const owned = (await this.ownLimits(undefined)).items.find(({ key }) => isMeant(key))
    return owned?.key ?? (await this.blocks(undefined, isViewerThere)).blocks.find(({ key }) => isMeant(key))?.key
  }

  /** The limiters that count in Redis and that a service, or any, uses, the worst first. */
  sharedLimiters(service?: string): KnownLimiter[] {
    const isUsed = this.summary.usedBy(service)
    return this.summary.known.filter(({ name, shared }) => shared && (isUsed === undefined || isUsed('limit', name)))
  }

  /** Throws while Redis is unreachable. */
  checkRedis(): void {
    const { failing } = this.reports
    if (failing !== undefined) throw new StoreError(`Redis does not answer: ${failing.reason}`)
  }
}
