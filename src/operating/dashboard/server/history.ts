import { Deadline } from '../../../limiter/core/clock.js'
import { getOrMake } from '../../../limiter/core/maps.js'
import type { RedisClient } from '../../../redis/client.js'
import { hashReader } from '../../../redis/hash-reader.js'
import { ALLOWED, eachRow, REFUSED } from '../counts.js'
import { MINUTE_MS, type RecordKeys, STEP_MS, STEPS, stepOf, TEN_MINUTES_MS } from '../records.js'
import type { Range, Series } from '../view.js'
import { type FleetReports, rounded } from './fleet-reports.js'

/** The steps in which a chart may be drawn, and how many of them are kept in Redis. */
const FINE = { stepMs: STEP_MS, steps: STEPS }
const MINUTES = { stepMs: MINUTE_MS, steps: 60 }
const TENS = { stepMs: TEN_MINUTES_MS, steps: 144 }
type Resolution = typeof FINE

/** From the finest on; the last one is drawn where the data is so old. */
const RANGES: Readonly<Record<Range, { readonly spanMs: number; readonly resolutions: readonly Resolution[] }>> = {
  '15m': { spanMs: 900_000, resolutions: [FINE] },
  '1h': { spanMs: 3_600_000, resolutions: [FINE, MINUTES] },
  '6h': { spanMs: 21_600_000, resolutions: [FINE, MINUTES, TENS] },
  '24h': { spanMs: 86_400_000, resolutions: [FINE, MINUTES, TENS] },
}

/** The current step is shown from this age on: earlier its rate is noise. */
const RIPE_MS = 3500
/** Steps in one round trip, as in the first load of the reports. */
const AT_ONCE = 10
const REPLY_DEADLINE = new Deadline(2000)
/** Allowed, refused. */
const PARTS = 2
/** Most limits of one resolution: twice as many as the index has. */
const MOST_LIMITS = 20_000

/** Charts of one summary. */
interface FineCharts {
  readonly number: number
  readonly load: number
  readonly from: number
  readonly now: number
  /** From here on they may change. */
  readonly openAt: number
  readonly charts: Map<string, Series>
  /** Those of the summary before this one, if no old step was read anew since. */
  readonly before: { readonly charts: ReadonlyMap<string, Series>; readonly openAt: number } | undefined
}

export function spanOf(range: Range): number {
  return RANGES[range].spanMs
}

export function rangeIn(given: unknown): Range | undefined {
  return typeof given === 'string' && Object.hasOwn(RANGES, given) ? (given as Range) : undefined
}

/**
 * Charts: the last 15 minutes come from the reports, what is older from coarser steps in Redis. Such a step does not
 * change any more, so it is read once, when somebody looks so far back: a dashboard keeps 16 bytes for each limit and
 * step.
 */
export class History {
  readonly #past: ReadonlyMap<Resolution, PastSteps>

  /** The charts of the last summary that were drawn of the reports alone: all viewers share them. */
  #fine: FineCharts | undefined

  constructor(
    client: RedisClient,
    keys: RecordKeys,
    readonly reports: FleetReports,
  ) {
    const read = hashReader(client, 'dashboard')
    this.#past = new Map(
      [MINUTES, TENS].map(each => [each, new PastSteps(each, step => read(keys.sums(step, each.stepMs)))]),
    )
  }

  /**
   * Reads what a range needs, and gives the charts of its limits. If Redis fails, the steps that lack are gaps until
   * the next time.
   */
  async charts(range: Range): Promise<(id: string) => Series> {
    const { reports } = this
    const { spanMs, resolutions } = RANGES[range]
    const until = this.#fineFrom
    let drawn = FINE
    let firstAt = reports.firstStep * STEP_MS
    // From the coarsest on: if there is nothing older than what the next finer one tells, that one is drawn.
    for (const each of [...resolutions].reverse()) {
      drawn = each
      const past = this.#past.get(each)
      if (past === undefined || reports.readAt === 0) continue
      await past.read(this.#startOf(each, spanMs), until, reports.readAt)
      const finer = resolutions[resolutions.indexOf(each) - 1]
      const oldest = past.oldest(this.#startOf(each, spanMs))
      if (oldest === undefined || oldest >= this.#startOf(finer, spanMs)) continue
      firstAt = Math.min(firstAt, oldest)
      break
    }
    const from = Math.max(this.#startOf(drawn, spanMs), Math.floor(firstAt / drawn.stepMs) * drawn.stepMs)
    const { last, elapsedMs } = reports.window
    const now = last * STEP_MS + elapsedMs
    if (drawn !== FINE) return id => this.#series(id, drawn, from, now)
    const { charts, before } = this.#fineCharts(from, now)
    return id => getOrMake(charts, id, () => this.#series(id, FINE, from, now, before?.charts.get(id), before?.openAt))
  }

  #fineCharts(from: number, now: number): FineCharts {
    const { number, load, openStep } = this.reports
    const known = this.#fine
    if (known?.number === number && known.from === from && known.now === now) return known
    const before = known?.load === load ? { charts: known.charts, openAt: known.openAt } : undefined
    this.#fine = { number, load, from, now, openAt: openStep * STEP_MS, charts: new Map(), before }
    return this.#fine
  }

  /** The first moment of which the reports tell all. */
  get #fineFrom(): number {
    return (stepOf(this.reports.readAt) - STEPS + 1) * STEP_MS
  }

  /** Where a chart in such steps begins. */
  #startOf({ stepMs, steps }: Resolution, spanMs: number): number {
    const last = Math.floor(this.reports.readAt / stepMs)
    return (last - Math.min(steps, Math.floor(spanMs / stepMs)) + 1) * stepMs
  }

  /** Of a chart drawn `before` only those steps are counted again that may have changed since, from `openAt` on. */
  #series(id: string, resolution: Resolution, from: number, now: number, before?: Series, openAt = 0): Series {
    const { reports } = this
    const { stepMs } = resolution
    const past = this.#past.get(resolution)
    const fineFrom = this.#fineFrom
    const shift = before === undefined ? 0 : (from - before.from) / stepMs
    const over = Math.floor((Math.min(now, openAt) - from) / stepMs)
    const same = before === undefined || shift < 0 ? 0 : Math.max(0, Math.min(before.allowed.length - shift, over))
    const allowed = before === undefined ? [] : before.allowed.slice(shift, shift + same)
    const refused = before === undefined ? [] : before.refused.slice(shift, shift + same)
    for (let at = from + same * stepMs; at <= reports.readAt; at += stepMs) {
      const elapsed = Math.min(stepMs, now - at)
      if (elapsed < RIPE_MS && at > from) break
      const seconds = Math.max(elapsed, RIPE_MS) / 1000
      const counted = at >= fineFrom || past === undefined ? this.#recent(id, at, stepMs) : past.counts(id, at)
      allowed.push(counted === undefined ? null : rounded(counted[0] / seconds))
      refused.push(counted === undefined ? null : rounded(counted[1] / seconds))
    }
    return { from, stepMs, allowed, refused }
  }

  /** By the reports. */
  #recent(id: string, at: number, stepMs: number): readonly [allowed: number, refused: number] {
    let [allowed, refused] = [0, 0]
    for (let step = stepOf(at), end = stepOf(at + stepMs); step < end; step++) {
      const counts = this.reports.counts(id, step)
      if (counts === undefined) continue
      allowed += counts[ALLOWED]
      refused += counts[REFUSED]
    }
    return [allowed, refused]
  }
}

/** Steps of one length that are over, as they were read. */
class PastSteps {
  /**
   * Limit → its allowed and refused requests in each step; a step has the place of its number modulo the number of
   * places.
   */
  readonly #counts = new Map<string, Float64Array>()
  /** Step → whether anything was decided in it. */
  readonly #known = new Map<number, boolean>()
  readonly #places: number
  readonly #stepMs: number
  #summary: Promise<void> = Promise.resolve()

  constructor(
    { stepMs, steps }: Resolution,
    readonly hash: (step: number) => Promise<ReadonlyArray<readonly [field: string, text: string]>>,
  ) {
    this.#stepMs = stepMs
    this.#places = steps + 1
  }

  /** Reads the steps from a moment on that began before another and are not known. Resolves also if Redis fails. */
  read(from: number, until: number, now: number): Promise<void> {
    // One after the other: several viewers share what the first one reads.
    this.#summary = this.#summary.then(() => this.#read(from, until, now)).catch(() => {})
    return this.#summary
  }

  counts(id: string, at: number): readonly [allowed: number, refused: number] | undefined {
    const step = at / this.#stepMs
    if (!this.#known.has(step)) return undefined
    const place = (step % this.#places) * PARTS
    const counts = this.#counts.get(id)
    return [counts?.[place] ?? 0, counts?.[place + 1] ?? 0]
  }

  /** The first step from a moment on in which anything was decided. */
  oldest(from: number): number | undefined {
    let oldest: number | undefined
    for (const [step, some] of this.#known) {
      const at = step * this.#stepMs
      if (some && at >= from && (oldest === undefined || at < oldest)) oldest = at
    }
    return oldest
  }

  async #read(from: number, until: number, now: number): Promise<void> {
    this.#forget(now)
    const missing: number[] = []
    for (let at = from; at < until; at += this.#stepMs) {
      if (!this.#known.has(at / this.#stepMs)) missing.push(at / this.#stepMs)
    }
    for (let i = 0; i < missing.length; i += AT_ONCE) {
      const steps = missing.slice(i, i + AT_ONCE)
      const hashes = await REPLY_DEADLINE.hold(Promise.all(steps.map(step => this.hash(step))))
      for (const [j, step] of steps.entries()) this.#take(step, hashes[j])
    }
  }

  #take(step: number, texts: ReadonlyArray<readonly [field: string, text: string]>): void {
    const place = (step % this.#places) * PARTS
    for (const counts of this.#counts.values()) counts.fill(0, place, place + PARTS)
    this.#known.set(step, texts.length > 0)
    for (const [, text] of texts) {
      eachRow(text, (id, counts) => {
        const kept = getOrMake(this.#counts, id, () => new Float64Array(PARTS * this.#places))
        kept[place] = counts[ALLOWED]
        kept[place + 1] = counts[REFUSED]
      })
    }
  }

  /** Steps that are too old for every range; all of them, if too many limits have come and gone. */
  #forget(now: number): void {
    const isFull = this.#counts.size > MOST_LIMITS
    if (isFull) this.#counts.clear()
    const last = Math.floor(now / this.#stepMs) - this.#places
    for (const step of this.#known.keys()) if (isFull || step <= last) this.#known.delete(step)
  }
}
