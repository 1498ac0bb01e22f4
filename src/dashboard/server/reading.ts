import type { Bounds } from '../../adaptive/follow-load.js'
import { getOrMake } from '../../core/get-or-make.js'
import { EVERYTHING, type LimitEntry, type ObjectKind, type UsedKind } from '../index-entry.js'
import { ALLOWED, FALLBACK, REFUSED } from '../outcome-counts.js'
import type { LevelRow } from '../process-details.js'
import type { Frame } from '../view.js'
import { type KnownLimiter, knownLimiters } from './limiters.js'
import type { Reports } from './reports.js'
import { histogramsOf, levelsOf } from './sums-of-details.js'
import { TopCallers } from './top-callers.js'
import { ratesOf, shareOf } from './traffic.js'

/** Less refused than this share is no trouble. */
const WORST_SHARE = 0.005

/** A limit with its present rates. */
export interface Rated extends ReturnType<typeof ratesOf> {
  readonly entry: LimitEntry
}

/** What a limiter refuses and allows per second, over all its limits. */
export interface LimiterRates {
  readonly allowed: number
  readonly refused: number
}

type OfDetails = Readonly<{
  callers: TopCallers
  lateness: ReturnType<typeof histogramsOf>
  levels: ReturnType<typeof levelsOf>
}>

type OfEntries = Readonly<{
  limits: readonly LimitEntry[]
  limiters: ReadonlyMap<string, KnownLimiter>
  names: Readonly<Record<ObjectKind, readonly string[]>>
  /** Service → what it uses: kind and name. */
  uses: ReadonlyMap<string, ReadonlySet<string>>
  /** By rate. */
  bounds: ReadonlyMap<string, Bounds>
}>

/**
 * What pages show of the reports: each part is derived once from one reading, for all pages and viewers, and from the details and the index
 * only when these were read anew.
 */
export class Reading {
  #rated: readonly Rated[] | undefined
  #limiters: ReadonlyMap<string, LimiterRates> | undefined
  #known: readonly KnownLimiter[] | undefined
  #status: Frame['status'] | undefined
  #services: readonly string[] | undefined
  #ofDetails: OfDetails | undefined
  #ofEntries: OfEntries | undefined

  constructor(
    readonly reports: Reports,
    /** The reading before this one. */
    before: Reading | undefined,
  ) {
    this.number = reports.number
    this.details = reports.details
    this.entries = reports.entries
    if (before?.details === this.details) this.#ofDetails = before.#ofDetails
    if (before?.entries === this.entries) this.#ofEntries = before.#ofEntries
  }

  readonly number: number
  readonly details: Reports['details']
  readonly entries: Reports['entries']

  get callers(): TopCallers {
    return this.#detailed().callers
  }

  get lateness(): OfDetails['lateness'] {
    return this.#detailed().lateness
  }

  /** The levels of all processes of a service, or of all services, together. */
  levels(service?: string): readonly LevelRow[] {
    if (service === undefined) return this.#detailed().levels
    const { processes } = this.reports
    const own = new Set(processes.filter(({ record }) => record.service === service).map(({ id }) => id))
    return levelsOf(this.details, id => own.has(id))
  }

  get limits(): readonly LimitEntry[] {
    return this.#indexed().limits
  }

  /** The objects of a kind that a service, or any, uses, by their names in the order of the alphabet. */
  names(kind: ObjectKind, service?: string): readonly string[] {
    const isUsed = this.usedBy(service)
    const names = this.#indexed().names[kind]
    return isUsed === undefined ? names : names.filter(name => isUsed(kind, name))
  }

  /** Whether a service uses something; undefined where no service is chosen: then everything is shown. */
  usedBy(service: string | undefined): ((kind: UsedKind, name: string) => boolean) | undefined {
    if (service === undefined) return undefined
    const used = this.#indexed().uses.get(service)
    return (kind, name) => used?.has(`${kind} ${name}`) === true
  }

  /** Within what followLoad steers a rate, if it was told to. */
  boundsOf(rate: string): Bounds | undefined {
    return this.#indexed().bounds.get(rate)
  }

  /** The limits in force, those first that refuse the largest share, then the busiest. */
  get rated(): readonly Rated[] {
    this.#rated ??= this.limits
      .map((entry): Rated => ({ entry, ...ratesOf(this.reports, entry.id) }))
      .filter(this.#isCurrent())
      .sort(byTrouble)
    return this.#rated
  }

  /** The limiters, in the same order. */
  get known(): readonly KnownLimiter[] {
    if (this.#known === undefined) {
      const { limiters } = this.#indexed()
      const names = new Set(this.rated.map(({ entry }) => entry.name))
      for (const name of limiters.keys()) names.add(name)
      this.#known = [...names].flatMap(name => limiters.get(name) ?? [])
    }
    return this.#known
  }

  /** A limiter's rates. A request that is refused counts under the limits that refuse it, one that is allowed under each limit. */
  ratesOf(limiter: string): LimiterRates {
    if (this.#limiters === undefined) {
      const sums = new Map<string, { allowed: number; refused: number }>()
      for (const { entry, allowed, refused } of this.rated) {
        const sum = getOrMake(sums, entry.name, () => ({ allowed: 0, refused: 0 }))
        sum.allowed = Math.max(sum.allowed, allowed)
        sum.refused += refused
      }
      this.#limiters = sums
    }
    return this.#limiters.get(limiter) ?? { allowed: 0, refused: 0 }
  }

  get status(): Frame['status'] {
    this.#status ??= statusOf(this.reports, this.services.length)
    return this.#status
  }

  /** All that have reported. */
  get services(): readonly string[] {
    this.#services ??= [...new Set(this.reports.processes.map(({ record }) => record.service))].sort()
    return this.#services
  }

  #detailed(): OfDetails {
    const { details } = this
    this.#ofDetails ??= { callers: new TopCallers(details), lateness: histogramsOf(details), levels: levelsOf(details) }
    return this.#ofDetails
  }

  #indexed(): OfEntries {
    if (this.#ofEntries === undefined) {
      const limits: LimitEntry[] = []
      const names: Record<ObjectKind, string[]> = { rate: [], semaphore: [], queue: [] }
      const uses = new Map<string, Set<string>>()
      const bounds = new Map<string, Bounds>()
      for (const entry of this.entries.values()) {
        if (entry.kind === 'limit') limits.push(entry)
        else if (entry.kind === 'follower') bounds.set(entry.name, entry.bounds)
        else if (entry.kind === 'use')
          getOrMake(uses, entry.name, () => new Set<string>()).add(`${entry.of} ${entry.object}`)
        else names[entry.kind].push(entry.name)
      }
      for (const all of Object.values(names)) all.sort()
      const limiters = new Map(knownLimiters(limits).map(limiter => [limiter.name, limiter]))
      this.#ofEntries = { limits, limiters, names, uses, bounds }
    }
    return this.#ofEntries
  }

  /** Leaves out a limit that another window or algorithm has replaced, when it was not used for 15 minutes. */
  #isCurrent(): (row: Rated) => boolean {
    const known = new Map<string, number>()
    const idOf = ({ name, limit }: LimitEntry) => `${name} ${limit.name}`
    for (const entry of this.limits) known.set(idOf(entry), (known.get(idOf(entry)) ?? 0) + 1)
    return ({ entry }) => (known.get(idOf(entry)) ?? 0) < 2 || this.reports.wasUsed(entry.id)
  }
}

function statusOf(reports: Reports, services: number): Frame['status'] {
  const { counts, seconds } = reports.recent(EVERYTHING, 2)
  const decided = counts[ALLOWED] + counts[REFUSED]
  const { processes, alive } = reports
  const answers = alive.flatMap(({ record }) => (record.answerMs === undefined ? [] : [record.answerMs]))
  return {
    services,
    processes: alive.length,
    silent: processes.length - alive.length,
    ...(answers.length > 0 && { answerMs: answers.reduce((sum, ms) => sum + ms, 0) / answers.length }),
    perSecond: decided / seconds,
    refusedShare: decided > 0 ? counts[REFUSED] / decided : 0,
    degradedShare: shareOf(counts, FALLBACK),
  }
}

function byTrouble(a: Rated, b: Rated): number {
  const [worseA, worseB] = [a.share >= WORST_SHARE ? a.share : 0, b.share >= WORST_SHARE ? b.share : 0]
  const byRate = b.allowed + b.refused - (a.allowed + a.refused)
  return worseB - worseA || byRate || (a.entry.name < b.entry.name ? -1 : 1)
}
