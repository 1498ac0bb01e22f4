import { getOrMake } from '../../../limiter/core/maps.js'
import { ALLOWED, addDeliveries, type Deliveries, FALLBACK, REFUSED } from '../counts.js'
import {
  type KeyRow,
  type LevelRow,
  type LimitEntry,
  type ObjectKind,
  type ProcessDetails,
  TOTAL_ROW,
  type UsedKind,
} from '../records.js'
import type { KeyRate, KeyView } from '../view.js'
import { type FleetReports, ratesOf, shareOf } from './fleet-reports.js'
import { type KnownLimiter, knownLimiters } from './limiters.js'

type Details = ReadonlyMap<string, ProcessDetails>

/** The recent deliveries of all processes, by queue. */
function deliveriesOf(details: Details): ReadonlyMap<string, Deliveries> {
  const queues = new Map<string, Deliveries>()
  for (const { deliveries } of details.values()) for (const row of deliveries) addDeliveries(queues, row.queue, row)
  return queues
}

/** The current levels of all processes together, or of those that are meant. */
function levelsOf(details: Details, isMeant: (process: string) => boolean = () => true): LevelRow[] {
  const sums = new Map<string, LevelRow>()
  for (const [process, { levels }] of details) {
    if (!isMeant(process)) continue
    for (const row of levels) {
      const id = `${row.object} ${row.name}`
      const known = sums.get(id)
      sums.set(
        id,
        known === undefined
          ? row
          : {
              ...known,
              ...row,
              inUse: plus(known.inUse, row.inUse),
              waiting: plus(known.waiting, row.waiting),
              // Over Redis each process tells what all of them use.
              used: largest(known.used, row.used),
              reservoir: row.reservoir ?? known.reservoir,
            },
      )
    }
  }
  return [...sums.values()]
}

function plus(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined && b === undefined ? undefined : (a ?? 0) + (b ?? 0)
}

function largest(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined ? b : Math.max(a, b ?? 0)
}

const MOST_CALLERS = 10

type By = 'asked' | 'refused'
/** Whether a limiter is shown. */
type IsMeant = (limiter: string) => boolean

interface Caller {
  readonly limiter: string
  readonly key: string
  asked: number
  refused: number
}

/** The first of a limiter's keys, and what all of them do. */
interface Ranked {
  readonly sum: number
  readonly top: readonly Caller[]
}

/** The busiest and the most refused keys: the reports of all processes, added up. */
class TopCallers {
  readonly #byLimiter = new Map<string, Map<string, Caller>>()
  readonly #ranked = new Map<string, Ranked>()
  readonly #refs = new Map<string, string>()
  readonly #unseen = this.#keys()

  constructor(details: ReadonlyMap<string, ProcessDetails>) {
    for (const { keys } of details.values()) for (const [limiter, rows] of keys) this.#add(limiter, rows)
  }

  /**
   * `of`: a limiter, or which limiters are meant; undefined: all. Shares are of the sum of all these keys, or of
   * `total` if that is more.
   */
  top(by: By, show: (key: string) => KeyView, of?: string | IsMeant, total = 0): KeyRate[] {
    const { sum, top } = this.#ranking(by, of)
    const most = Math.max(total, sum)
    return top.map(({ key, limiter, ...caller }) => ({
      key: show(key),
      limiter,
      perSecond: caller[by],
      share: most > 0 ? caller[by] / most : 0,
    }))
  }

  /** The first of `top` that is not left out, with its share of all others; it is not shown yet. */
  loudest(
    by: By,
    limiter: string,
    total: number,
    isLeftOut: (limiter: string, key: string) => boolean,
  ): { key: string; share: number } | undefined {
    let [sum, leftOut] = [0, 0]
    let first: Caller | undefined
    for (const caller of this.#byLimiter.get(limiter)?.values() ?? []) {
      if (isLeftOut(limiter, caller.key)) {
        leftOut += caller[by]
        continue
      }
      sum += caller[by]
      if (caller[by] > (first?.[by] ?? 0)) first = caller
    }
    return first && { key: first.key, share: first[by] / Math.max(total - leftOut, sum) }
  }

  #ranking(by: By, of: string | IsMeant | undefined): Ranked {
    // What is meant may be another set each time.
    if (typeof of === 'function') return rank(by, this.#of(of))
    const all = of === undefined ? this.#byLimiter.values() : [this.#byLimiter.get(of) ?? new Map()]
    return getOrMake(this.#ranked, `${by} ${of ?? ''}`, () => rank(by, all))
  }

  *#of(isMeant: IsMeant): Generator<ReadonlyMap<string, Caller>, void> {
    for (const [limiter, callers] of this.#byLimiter) if (isMeant(limiter)) yield callers
  }

  /** The key that a ref stands for. What has been looked at once is remembered. */
  keyOf(ref: string, refOf: (key: string) => string): string | undefined {
    for (let known = this.#refs.get(ref); ; ) {
      if (known !== undefined) return known
      const next = this.#unseen.next()
      if (next.done) return undefined
      const found = refOf(next.value)
      this.#refs.set(found, next.value)
      if (found === ref) known = next.value
    }
  }

  /** Whether a limiter's reports name a key. */
  has(limiter: string, key: string): boolean {
    return this.#byLimiter.get(limiter)?.has(key) === true
  }

  *#keys(): Generator<string, void> {
    for (const callers of this.#byLimiter.values()) yield* callers.keys()
  }

  #add(limiter: string, rows: readonly KeyRow[]): void {
    const callers = getOrMake(this.#byLimiter, limiter, () => new Map())
    for (const [key, asked, refused] of rows) {
      const known = callers.get(key)
      if (known === undefined) callers.set(key, { limiter, key, asked, refused })
      else {
        known.asked += asked
        known.refused += refused
      }
    }
  }
}

function rank(by: By, all: Iterable<ReadonlyMap<string, Caller>>): Ranked {
  let sum = 0
  let top: Caller[] = []
  let least = 0.005
  for (const callers of all) {
    for (const caller of callers.values()) {
      sum += caller[by]
      if (caller[by] < least) continue
      top.push(caller)
      if (top.length < 4 * MOST_CALLERS) continue
      top = top.sort((a, b) => b[by] - a[by]).slice(0, MOST_CALLERS)
      least = top[MOST_CALLERS - 1][by]
    }
  }
  return { sum, top: top.sort((a, b) => b[by] - a[by]).slice(0, MOST_CALLERS) }
}

/** Less refused than this share is no trouble. */
const WORST_SHARE = 0.005

/** A limit with its present rates. */
export type Rated = ReturnType<typeof ratesOf>

/** What a limiter refuses and allows per second, over all its limits. */
interface LimiterRates {
  readonly allowed: number
  readonly refused: number
}

type DetailSums = Readonly<{
  callers: TopCallers
  lateness: ReturnType<typeof deliveriesOf>
  levels: ReturnType<typeof levelsOf>
}>

type IndexSums = Readonly<{
  limits: readonly LimitEntry[]
  /** Those of which others have the same name. */
  replaced: ReadonlySet<LimitEntry>
  limiters: ReadonlyMap<string, KnownLimiter>
  names: Readonly<Record<ObjectKind, readonly string[]>>
  /** Service → what it uses: kind and name. */
  uses: ReadonlyMap<string, ReadonlySet<string>>
  /** By rate. */
}>

/**
 * What pages show of the reports: each part is derived once from one summary, for all pages and viewers, and from the
 * details and the index only when these were read anew.
 */
export class FleetSummary {
  #limitsByTrouble: readonly Rated[] | undefined
  #limiters: ReadonlyMap<string, LimiterRates> | undefined
  #known: readonly KnownLimiter[] | undefined
  #status: ReturnType<typeof statusOf> | undefined
  #services: readonly string[] | undefined
  #detailSums: DetailSums | undefined
  #indexSums: IndexSums | undefined

  constructor(
    readonly reports: FleetReports,
    /** The summary before this one. */
    before: FleetSummary | undefined,
  ) {
    this.number = reports.number
    this.details = reports.details
    this.entries = reports.entries
    if (before?.details === this.details) this.#detailSums = before.#detailSums
    if (before?.entries === this.entries) this.#indexSums = before.#indexSums
  }

  readonly number: number
  readonly details: FleetReports['details']
  readonly entries: FleetReports['entries']

  get callers(): TopCallers {
    return this.#detailed().callers
  }

  get lateness(): DetailSums['lateness'] {
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

  /** The limits in force, those first that refuse the largest share, then the busiest. */
  get limitsByTrouble(): readonly Rated[] {
    if (this.#limitsByTrouble === undefined) {
      const { limits, replaced } = this.#indexed()
      // One that another has replaced is left out when it was not used for 15 minutes.
      const current = limits.filter(entry => !replaced.has(entry) || this.reports.wasUsed(entry.id))
      this.#limitsByTrouble = current.map((entry): Rated => ratesOf(this.reports, entry)).sort(byTrouble)
    }
    return this.#limitsByTrouble
  }

  /** The limiters, in the same order. */
  get known(): readonly KnownLimiter[] {
    if (this.#known === undefined) {
      const { limiters } = this.#indexed()
      const names = new Set(this.limitsByTrouble.map(({ entry }) => entry.name))
      for (const name of limiters.keys()) names.add(name)
      this.#known = [...names].flatMap(name => limiters.get(name) ?? [])
    }
    return this.#known
  }

  /**
   * A limiter's rates. A request that is refused counts under the limits that refuse it, one that is allowed under each
   * limit.
   */
  ratesOf(limiter: string): LimiterRates {
    if (this.#limiters === undefined) {
      const sums = new Map<string, { allowed: number; refused: number }>()
      for (const { entry, allowed, refused } of this.limitsByTrouble) {
        const sum = getOrMake(sums, entry.name, () => ({ allowed: 0, refused: 0 }))
        sum.allowed = Math.max(sum.allowed, allowed)
        sum.refused += refused
      }
      this.#limiters = sums
    }
    return this.#limiters.get(limiter) ?? { allowed: 0, refused: 0 }
  }

  /** Of a limiter: what it refuses per second, its worst limit, and that limit's own name if it alone refuses. */
  refusing(limiter: string): { readonly refused: number; readonly worst?: LimitEntry; readonly ownName?: string } {
    const own = this.limitsByTrouble.filter(({ entry }) => entry.name === limiter)
    const refusing = own.filter(({ refused }) => refused > 0)
    const { refused } = this.ratesOf(limiter)
    if (own.length === 0) return { refused }
    const [{ entry: worst }] = own
    // A name like '5-per-15m' tells nothing that its limiter's only limit does not.
    const isPlain = worst.limit.name === limiter || (own.length === 1 && worst.limit.namedAfter !== undefined)
    return { refused, worst, ...(refusing.length === 1 && !isPlain && { ownName: worst.limit.name }) }
  }

  get status(): ReturnType<typeof statusOf> {
    this.#status ??= statusOf(this.reports, this.services.length)
    return this.#status
  }

  /** All that have reported. */
  get services(): readonly string[] {
    this.#services ??= [...new Set(this.reports.processes.map(({ record }) => record.service))].sort()
    return this.#services
  }

  #detailed(): DetailSums {
    const { details } = this
    this.#detailSums ??= {
      callers: new TopCallers(details),
      lateness: deliveriesOf(details),
      levels: levelsOf(details),
    }
    return this.#detailSums
  }

  #indexed(): IndexSums {
    if (this.#indexSums === undefined) {
      const limits: LimitEntry[] = []
      const names: Record<ObjectKind, string[]> = { rate: [], semaphore: [], queue: [] }
      const uses = new Map<string, Set<string>>()
      for (const entry of this.entries.values()) {
        if (entry.kind === 'limit') limits.push(entry)
        else if (entry.kind === 'use')
          getOrMake(uses, entry.name, () => new Set<string>()).add(`${entry.of} ${entry.object}`)
        else names[entry.kind].push(entry.name)
      }
      for (const all of Object.values(names)) all.sort()
      const limiters = new Map(knownLimiters(limits).map(limiter => [limiter.name, limiter]))
      this.#indexSums = { limits, replaced: ambiguous(limits), limiters, names, uses }
    }
    return this.#indexSums
  }
}

/** The limits of which there are several under one name: another window or algorithm has replaced one of them. */
function ambiguous(limits: readonly LimitEntry[]): ReadonlySet<LimitEntry> {
  const first = new Map<string, LimitEntry>()
  const found = new Set<LimitEntry>()
  for (const entry of limits) {
    const known = getOrMake(first, `${entry.name} ${entry.limit.name}`, () => entry)
    if (known !== entry) found.add(known).add(entry)
  }
  return found
}

function statusOf(reports: FleetReports, services: number) {
  const { counts, seconds } = reports.recent(TOTAL_ROW, 2)
  const decided = counts[ALLOWED] + counts[REFUSED]
  const { processes, alive } = reports
  const answers = alive.flatMap(({ record }) => (record.answerMs === undefined ? [] : [record.answerMs]))
  return {
    services,
    /** Heard of lately. */
    processes: alive.length,
    /** Not heard of lately: idle, or gone. */
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
