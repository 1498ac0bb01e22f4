import { PolicyError, shown } from '../core/errors.js'

/** Most values per label. Names come from code and are few; but names derived from requests must not fill a monitoring system. */
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
  /** Of a gauge: all processes tell the same, of something outside of them; it is absent once it was not asked for 15 s. */
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
    help: 'Decisions by limiter, strictest limit, outcome (allowed, refused, shadow: refused and let through) and who decided.',
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
    help: 'Questions that the store answered (ok); decisions and changes that it failed or did not answer in time (error).',
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
    help: 'Requests of this process that wait for their turn.',
  },
  waitDuration: {
    kind: 'histogram',
    name: 'wait_seconds',
    instrument: 'ratelimit.wait.duration',
    unit: 's',
    labels: ['object', 'name', 'outcome'],
    help: 'How long requests waited that were ready to wait, and how that ended: granted, timeout, aborted.',
    buckets: WAIT_BUCKETS,
  },
  concurrencyInUse: {
    kind: 'gauge',
    name: 'concurrency_in_use',
    instrument: 'ratelimit.concurrency.in_use',
    unit: '{permit}',
    labels: ['object', 'name'],
    help: 'Permits and places that this process holds.',
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
  queueLateness: {
    kind: 'histogram',
    name: 'queue_lateness_seconds',
    instrument: 'ratelimit.queue.lateness',
    unit: 's',
    labels: ['queue'],
    help: 'How long after they were due messages were delivered.',
    buckets: WAIT_BUCKETS,
  },
  queueDepth: {
    kind: 'gauge',
    name: 'queue_depth',
    instrument: 'ratelimit.queue.depth',
    unit: '{message}',
    labels: ['queue'],
    help: 'Messages that the queue holds in Redis, delivered or not, without dead letters. Every process tells the same number, or none.',
    shared: true,
  },
  queueOverdue: {
    kind: 'gauge',
    name: 'queue_overdue_seconds',
    instrument: 'ratelimit.queue.overdue',
    unit: 's',
    labels: ['queue'],
    help: 'For how long the oldest message has been due that no process has taken yet; 0 if there is none. Every process tells the same, or nothing.',
    shared: true,
  },
  queueSettlements: {
    kind: 'counter',
    name: 'queue_settlements_total',
    instrument: 'ratelimit.queue.settlements',
    unit: '{delivery}',
    labels: ['queue', 'outcome'],
    help: 'Deliveries by how they were settled: ack, nack, dead (a dead letter now), stale (their visibility had ended).',
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
