import type { Observer } from '../core/observer.js'
import type { DecisionCounts } from './decision-counts.js'
import { LabelValues } from './label-values.js'
import { METRICS, type Metric } from './metrics.js'

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
