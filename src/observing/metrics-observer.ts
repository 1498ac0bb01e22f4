import type { Decision, DecisionSource } from '../core/decision.js'
import { getOrMake } from '../core/get-or-make.js'
import type { Observer } from '../core/observer.js'
import { LabelValues, METRICS, type Metric } from './metrics.js'

const OUTCOMES = ['allowed', 'refused', 'shadow'] as const

/** What one series counts. */
interface DecisionLabels {
  readonly limiter: string
  readonly limit: string
  readonly outcome: (typeof OUTCOMES)[number]
  readonly source: DecisionSource
}

/** One series: `count` is how many there were. */
interface DecisionCell {
  readonly labels: DecisionLabels
  count: number
}

/** The cells of one limit of a limiter, by source, then by outcome. */
type LimitCells = Map<DecisionSource, readonly DecisionCell[]>

/**
 * Decisions by limiter, limit, outcome and source. They are counted here and passed on at collection: the counters of metrics
 * libraries look up their labels at each step, which would cost as much as a decision in memory.
 */
export class DecisionCounts {
  readonly cells: DecisionCell[] = []
  readonly #limiters = new Map<string, Map<string, LimitCells>>()
  readonly #limiterNames = new LabelValues()
  readonly #limitNames = new LabelValues()

  count({ limit, source, shadow, allowed }: Decision, limiter: string): void {
    const outcome = shadow ? 2 : allowed ? 0 : 1
    const cell = this.#limiters.get(limiter)?.get(limit.name)?.get(source)?.[outcome]
    if (cell !== undefined) cell.count++
    else this.#cellOf(this.#limiterNames.of(limiter), this.#limitNames.of(limit.name), source, outcome).count++
  }

  #cellOf(limiter: string, limit: string, source: DecisionSource, outcome: number): DecisionCell {
    const limits = getOrMake(this.#limiters, limiter, () => new Map<string, LimitCells>())
    const sources = getOrMake(limits, limit, (): LimitCells => new Map())
    // All outcomes at once: alerts see a first refusal only if its series was there before.
    const outcomes = getOrMake(sources, source, () => {
      const cells = OUTCOMES.map(outcome => ({ labels: { limiter, limit, outcome, source }, count: 0 }))
      this.cells.push(...cells)
      return cells
    })
    return outcomes[outcome]
  }
}

export type Labels = Readonly<Record<string, string>>

/** The destination of metrics. Durations are in seconds. */
export interface MetricSink {
  /** A counter, or a gauge that events move up and down. */
  add(metric: Metric, by: number, labels: Labels): void
  /** A gauge whose value is told. */
  set(metric: Metric, value: number, labels: Labels): void
  record(metric: Metric, seconds: number, labels: Labels): void
  /** A counter or histogram begins at 0: its first event is then a rise, which alerts see. */
  begin(metric: Metric, labels: Labels): void
}

const SETTLEMENTS = ['ack', 'nack', 'dead', 'stale']
const ENDS_OF_HOLDS = ['released', 'lost']

const NO_LABELS: Labels = Object.freeze({})
const OK: Labels = Object.freeze({ outcome: 'ok' })
const ERROR: Labels = Object.freeze({ outcome: 'error' })

/** The observer that turns events into metrics. `counts` collects the decisions. */
export function metricsObserver(sink: MetricSink, counts: DecisionCounts): Observer {
  const values = new LabelValues()
  const met = new Set<string>()
  const isNew = (kind: string, name: string) => !met.has(`${kind} ${name}`) && met.add(`${kind} ${name}`) !== undefined
  const named = (object: string, name: string) => {
    const labels = { object, name: values.of(name) }
    if (isNew(object, labels.name)) {
      for (const outcome of ENDS_OF_HOLDS) sink.begin(METRICS.holdDuration, { ...labels, outcome })
    }
    return labels
  }
  const queued = (name: string) => {
    const labels = { queue: values.of(name) }
    if (isNew('queue', labels.queue)) {
      for (const outcome of SETTLEMENTS) sink.begin(METRICS.queueSettlements, { ...labels, outcome })
    }
    return labels
  }
  for (const labels of [OK, ERROR]) sink.begin(METRICS.storeOperations, labels)
  return {
    decided: (decision, limiter) => counts.count(decision, limiter),
    storeAnswered({ durationMs }) {
      sink.record(METRICS.storeDuration, durationMs / 1000, NO_LABELS)
      sink.add(METRICS.storeOperations, 1, OK)
    },
    storeFailed: () => sink.add(METRICS.storeOperations, 1, ERROR),
    breakerOpened: () => sink.add(METRICS.breakerState, 1, NO_LABELS),
    breakerClosed: () => sink.add(METRICS.breakerState, -1, NO_LABELS),
    leaseBought: ({ limit, units }) =>
      sink.add(METRICS.leaseUnits, units, { limit: values.of(limit.name), outcome: 'bought' }),
    leaseExpired: ({ limit, units }) =>
      sink.add(METRICS.leaseUnits, units, { limit: values.of(limit.name), outcome: 'expired' }),
    waited: ({ object, name, waitMs, outcome }) =>
      sink.record(METRICS.waitDuration, waitMs / 1000, { ...named(object, name), outcome }),
    held: ({ object, name, heldMs, lost }) =>
      sink.record(METRICS.holdDuration, heldMs / 1000, {
        ...named(object, name),
        outcome: lost ? 'lost' : 'released',
      }),
    delivered: ({ queue, latenessMs }) => sink.record(METRICS.queueLateness, latenessMs / 1000, queued(queue)),
    level({ object, name, inUse, waiting, depth, overdueMs }) {
      if (waiting !== undefined) sink.set(METRICS.waiting, waiting, named(object, name))
      if (inUse !== undefined) sink.set(METRICS.concurrencyInUse, inUse, named(object, name))
      if (depth !== undefined) sink.set(METRICS.queueDepth, depth, queued(name))
      if (overdueMs !== undefined) sink.set(METRICS.queueOverdue, overdueMs / 1000, queued(name))
    },
    settledDelivery({ queue, outcome, durationMs }) {
      const labels = queued(queue)
      sink.add(METRICS.queueSettlements, 1, { ...labels, outcome })
      sink.record(METRICS.queueHandling, durationMs / 1000, labels)
    },
  }
}
