import type { Decision, DecisionSource } from '../../limiter/core/decision.js'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import { getOrMake } from '../../limiter/core/maps.js'
import type { Observer } from '../../limiter/core/observer.js'

/**
 * Most values per label. Names come from code and are few; but names derived from requests must not fill a monitoring
 * system.
 */
const MOST_VALUES = 1000
/** Stands for all further ones. */
const OTHER_VALUES = 'other'

/** The values of one label, bounded in number. */
export class LabelValues {
  readonly #known = new Set<string>()

  /** The value itself while there are few, else 'other'. */
  of(value: string): string {
    if (this.#known.has(value)) return value
    if (this.#known.size >= MOST_VALUES) return OTHER_VALUES
    this.#known.add(value)
    return value
  }
}

/** One metric, as Prometheus and OpenTelemetry know it. */
export interface Metric {
  readonly kind: 'counter' | 'gauge' | 'histogram'
  /** In Prometheus, after the prefix. */
  readonly name: string
  /** In OpenTelemetry. */
  readonly instrument: string
  /** By UCUM; of Prometheus a part of the name. */
  readonly unit: string
  readonly labels: readonly string[]
  readonly help: string
  /**
   * Of a gauge: all processes tell the same, of something outside of them; it is absent once it was not asked for 15 s.
   */
  readonly shared?: true
  /** Of a histogram: the upper bounds of its buckets, in seconds. */
  readonly buckets?: readonly number[]
}

/** From a tenth of a millisecond to the longest deadlines; the default deadline is 50 ms. */
const ANSWER_BUCKETS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1]
const WAIT_BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]

/** All metrics, by the event that they count. Their labels hold names that are written in code, never a key. */
export const METRICS = {
  decisions: {
    kind: 'counter',
    name: 'decisions_total',
    instrument: 'ratelimit.decisions',
    unit: '{decision}',
    labels: ['limiter', 'limit', 'outcome', 'source'],
    help:
      'Decisions by limiter, strictest limit, outcome (allowed, refused, shadow: refused and let through, blocked: ' +
      'refused because somebody has blocked the key) and who decided.',
  },
  storeDuration: {
    kind: 'histogram',
    name: 'store_duration_seconds',
    instrument: 'ratelimit.store.duration',
    unit: 's',
    labels: [],
    help: 'How long the store took to answer a question. One question may hold many decisions.',
    buckets: ANSWER_BUCKETS,
  },
  storeOperations: {
    kind: 'counter',
    name: 'store_operations_total',
    instrument: 'ratelimit.store.operations',
    unit: '{operation}',
    labels: ['outcome'],
    help:
      'Questions that the store answered (ok); decisions and changes that it failed or did not answer in time ' +
      '(error).',
  },
  breakerState: {
    kind: 'gauge',
    name: 'breaker_state',
    instrument: 'ratelimit.breaker.state',
    unit: '{breaker}',
    labels: [],
    help: 'Circuit breakers that are open: their stores are not asked, because they fail.',
  },
  waiting: {
    kind: 'gauge',
    name: 'waiting',
    instrument: 'ratelimit.waiting',
    unit: '{request}',
    labels: ['object', 'name'],
    help: 'Requests and jobs of this process that wait for their turn.',
  },
  waitDuration: {
    kind: 'histogram',
    name: 'wait_seconds',
    instrument: 'ratelimit.wait.duration',
    unit: 's',
    labels: ['object', 'name', 'outcome'],
    help: 'Time that requests waited, by outcome: granted, timeout, aborted.',
    buckets: WAIT_BUCKETS,
  },
  concurrencyInUse: {
    kind: 'gauge',
    name: 'concurrency_in_use',
    instrument: 'ratelimit.concurrency.in_use',
    unit: '{permit}',
    labels: ['object', 'name'],
    help: 'Permits and places that this process holds, and the weight of the jobs that it executes.',
  },
  holdDuration: {
    kind: 'histogram',
    name: 'hold_seconds',
    instrument: 'ratelimit.hold.duration',
    unit: 's',
    labels: ['object', 'name', 'outcome'],
    help: 'How long permits and places were held until they were released or lost.',
    buckets: WAIT_BUCKETS,
  },
  reservoir: {
    kind: 'gauge',
    name: 'reservoir',
    instrument: 'ratelimit.reservoir',
    unit: '{unit}',
    labels: ['object', 'name'],
    help:
      'What was left of the reservoir of a Bottleneck when it last decided. Over Redis every process reports the ' +
      'same value, or none: use min(), not sum().',
    shared: true,
  },
  budgetUsed: {
    kind: 'gauge',
    name: 'budget_used',
    instrument: 'ratelimit.budget.used',
    unit: '{unit}',
    labels: ['object', 'name'],
    help:
      "Units of a partner's budget (politeFetch) that count now. Over Redis they are those of all processes, as " +
      'each heard last: use max(), not sum().',
  },
  budgetDebt: {
    kind: 'gauge',
    name: 'budget_debt',
    instrument: 'ratelimit.budget.debt',
    unit: '{unit}',
    labels: ['object', 'name'],
    help:
      'How many of these units are above the rate, because calls have cost more than estimated: later calls wait ' +
      'for them. Over Redis: use max(), not sum().',
  },
  queueLateness: {
    kind: 'histogram',
    name: 'queue_lateness_seconds',
    instrument: 'ratelimit.queue.lateness',
    unit: 's',
    labels: ['queue'],
    help: 'Delay between due time and delivery.',
    buckets: WAIT_BUCKETS,
  },
  queueDepth: {
    kind: 'gauge',
    name: 'queue_depth',
    instrument: 'ratelimit.queue.depth',
    unit: '{message}',
    labels: ['queue'],
    help:
      'Messages that the queue holds in Redis, delivered or not, without dead letters. Every process reports the ' +
      'same value, or none: use max(), not sum().',
    shared: true,
  },
  queueOverdue: {
    kind: 'gauge',
    name: 'queue_overdue_seconds',
    instrument: 'ratelimit.queue.overdue',
    unit: 's',
    labels: ['queue'],
    help:
      'For how long the oldest message has been due that no process has taken yet; 0 if there is none. Every ' +
      'process reports the same value, or none: use max(), not sum().',
    shared: true,
  },
  queueSettlements: {
    kind: 'counter',
    name: 'queue_settlements_total',
    instrument: 'ratelimit.queue.settlements',
    unit: '{delivery}',
    labels: ['queue', 'outcome'],
    help:
      'Deliveries by how they were settled: ack, nack, dead (a dead letter now), stale (their visibility had ' +
      'ended).',
  },
  queueHandling: {
    kind: 'histogram',
    name: 'queue_handling_seconds',
    instrument: 'ratelimit.queue.handling',
    unit: 's',
    labels: ['queue'],
    help: 'How long after its delivery a message was settled.',
    buckets: WAIT_BUCKETS,
  },
  queueConsumerFailures: {
    kind: 'counter',
    name: 'queue_consumer_failures_total',
    instrument: 'ratelimit.queue.consumer_failures',
    unit: '{failure}',
    labels: ['queue'],
    help: 'How often consumers could not work: counted when that begins, then once a minute while it lasts.',
  },
  leaseUnits: {
    kind: 'counter',
    name: 'lease_units_total',
    instrument: 'ratelimit.lease.units',
    unit: '{unit}',
    labels: ['limit', 'outcome'],
    help: 'Units of busy keys that were bought in advance, and those of them that expired unspent.',
  },
} as const satisfies Record<string, Metric>

/** A value of a shared gauge that was told this long ago is not told again. */
export const SHARED_LIFE_MS = 15_000

const OWN = new Set<string>(Object.values(METRICS).flatMap(({ labels }): readonly string[] => labels))

/** Checks labels that every series shall carry; throws `PolicyError`, which begins with `user`. */
export function checkExtraLabels(labels: unknown, user: string, pattern = /^[a-zA-Z_][a-zA-Z0-9_]*$/): void {
  if (typeof labels !== 'object' || labels === null || Array.isArray(labels)) {
    throw new PolicyError(`${user} ${shown(labels)}: expected texts by name, like { region: 'eu' }`)
  }
  for (const [name, value] of Object.entries(labels)) {
    if (OWN.has(name)) {
      throw new PolicyError(
        `${user}: ${shown(name)} is a label that metrics have already: expected another, like "region"`,
      )
    }
    if (!pattern.test(name)) {
      throw new PolicyError(
        `${user}: name ${shown(name)}: expected letters, digits and _, not a digit first, like "region"`,
      )
    }
    if (typeof value !== 'string') {
      throw new PolicyError(`${user}: ${name} ${shown(value)}: expected a text, like "eu"`)
    }
  }
}

const OUTCOMES = ['allowed', 'refused', 'shadow', 'blocked'] as const
const BLOCKED = 3

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
type LimitCells = Map<DecisionSource, DecisionCell[]>

/**
 * Decisions by limiter, limit, outcome and source. They are counted here and passed on at collection: the counters of
 * metrics libraries look up their labels at each step, which would cost as much as a decision in memory.
 */
export class DecisionCounts {
  readonly cells: DecisionCell[] = []
  readonly #limiters = new Map<string, Map<string, LimitCells>>()
  readonly #limiterNames = new LabelValues()
  readonly #limitNames = new LabelValues()

  count({ limit, source, shadow, allowed, blocked }: Decision, limiter: string): void {
    const outcome = shadow ? 2 : allowed ? 0 : blocked ? BLOCKED : 1
    const cell = this.#limiters.get(limiter)?.get(limit.name)?.get(source)?.[outcome]
    if (cell !== undefined) cell.count++
    else this.#cellOf(this.#limiterNames.of(limiter), this.#limitNames.of(limit.name), source, outcome).count++
  }

  #cellOf(limiter: string, limit: string, source: DecisionSource, outcome: number): DecisionCell {
    const limits = getOrMake(this.#limiters, limiter, () => new Map<string, LimitCells>())
    const sources = getOrMake(limits, limit, (): LimitCells => new Map())
    const begin = (outcome: DecisionLabels['outcome']) => {
      const cell = { labels: { limiter, limit, outcome, source }, count: 0 }
      this.cells.push(cell)
      return cell
    }
    // Those of which alerts want to see the first: they see it only if its series was there before.
    const outcomes = getOrMake(sources, source, () => OUTCOMES.slice(0, BLOCKED).map(begin))
    outcomes[outcome] ??= begin(OUTCOMES[outcome])
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
    level({ object, name, inUse, waiting, depth, overdueMs, used, debt, reservoir }) {
      if (waiting !== undefined) sink.set(METRICS.waiting, waiting, named(object, name))
      if (inUse !== undefined) sink.set(METRICS.concurrencyInUse, inUse, named(object, name))
      if (used !== undefined) sink.set(METRICS.budgetUsed, used, { object, name: values.of(name) })
      if (reservoir !== undefined) sink.set(METRICS.reservoir, reservoir, named(object, name))
      if (debt !== undefined) sink.set(METRICS.budgetDebt, debt, { object, name: values.of(name) })
      if (depth !== undefined) sink.set(METRICS.queueDepth, depth, queued(name))
      if (overdueMs !== undefined) sink.set(METRICS.queueOverdue, overdueMs / 1000, queued(name))
    },
    settledDelivery({ queue, outcome, durationMs }) {
      const labels = queued(queue)
      sink.add(METRICS.queueSettlements, 1, { ...labels, outcome })
      sink.record(METRICS.queueHandling, durationMs / 1000, labels)
    },
    consumerFailed: ({ queue }) => sink.add(METRICS.queueConsumerFailures, 1, queued(queue)),
  }
}
