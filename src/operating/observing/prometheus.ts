import { Counter, Gauge, Histogram, Registry, register } from 'prom-client'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import { getOrMake } from '../../limiter/core/maps.js'
import type { Observer } from '../../limiter/core/observer.js'
import { checkOptions, type OptionNames } from '../../limiter/core/options.js'
import {
  checkExtraLabels,
  DecisionCounts,
  type Labels,
  METRICS,
  type Metric,
  type MetricSink,
  metricsObserver,
  SHARED_LIFE_MS,
} from './metrics.js'

/** Options of `prometheusObserver`. */
export interface PrometheusOptions {
  /** A `Registry` of prom-client. Default: its global one, `register`. */
  registry?: object
  /** What the names of all metrics begin with. Default 'ratelimit_'. */
  prefix?: string
  /**
   * Labels that every series carries, such as `{ region: 'eu' }`. Default: none. Not those that a metric has already.
   */
  labels?: Record<string, string>
}

const NAMES: OptionNames<PrometheusOptions> = { registry: true, prefix: true, labels: true }

/** By registry and prefix: the metrics, which can be registered only once. */
const REGISTERED = new WeakMap<object, Map<string, PrometheusMetrics>>()

/**
 * An observer that counts into a registry of prom-client, which must be installed (`npm install prom-client`). Give it
 * to everything that should be measured; `registry.metrics()` is then the page that Prometheus scrapes.
 * docs/observing.md lists the metrics. Labels never hold a key, and have at most 1000 values each; what comes later is
 * counted under 'other'.
 *
 * Two calls with one registry, prefix and labels give the same observer. Throws `PolicyError` for options that mean
 * nothing, and where the registry has metrics of these names that are not ours.
 */
export function prometheusObserver(options: PrometheusOptions = {}): Observer {
  checkOptions('prometheusObserver', options, NAMES, "{ prefix: 'ratelimit_' }")
  // It would call no function that collects.
  if (typeof new Registry().metrics() === 'string') {
    throw new PolicyError(
      'prometheusObserver: this prom-client is older than version 13: expected version 15 (npm install ' +
        'prom-client@latest)',
    )
  }
  const { registry = register, prefix = 'ratelimit_', labels = {} } = options
  if (typeof (registry as Registry | null)?.registerMetric !== 'function') {
    throw new PolicyError(
      `prometheusObserver: registry ${shown(registry)}: expected a Registry of prom-client, like new Registry()`,
    )
  }
  if (typeof prefix !== 'string' || !/^[a-zA-Z_:][a-zA-Z0-9_:]*$/.test(prefix)) {
    throw new PolicyError(
      `prometheusObserver: prefix ${shown(prefix)}: expected letters, digits and _, not a digit first, like ` +
        '"ratelimit_"',
    )
  }
  checkExtraLabels(labels, 'prometheusObserver: labels')
  const known = REGISTERED.get(registry) ?? new Map<string, PrometheusMetrics>()
  let metrics = known.get(prefix)
  // `registry.clear()` has removed them.
  if (!metrics?.isRegistered) metrics = new PrometheusMetrics(registry as Registry, prefix, Object.keys(labels).sort())
  const observer = metrics.observer(labels)
  REGISTERED.set(registry, known.set(prefix, metrics))
  return observer
}

/** The metrics of one registry under one prefix. */
class PrometheusMetrics {
  readonly #byName = new Map<string, Counter | Gauge | Histogram>()
  readonly #labelNames: readonly string[]
  readonly #observers = new Map<string, Observer>()
  readonly #counts: Array<readonly [labels: Labels, counts: DecisionCounts]> = []
  /** Open breakers, by the labels of their observer. */
  readonly #breakers = new Map<Labels, number>()
  /** When a series of a shared gauge was told last, by `performance.now()`. */
  readonly #toldAt = new Map<Gauge, Map<string, readonly [labels: Labels, at: number]>>()

  constructor(
    readonly registry: Registry,
    readonly prefix: string,
    labelNames: readonly string[],
  ) {
    this.#labelNames = labelNames
    const all: readonly Metric[] = Object.values(METRICS)
    for (const { name } of all) {
      if (registry.getSingleMetric(prefix + name) === undefined) continue
      throw new PolicyError(
        `prometheusObserver: the registry has a metric ${prefix + name} already: expected another prefix, like ` +
          '"myservice_ratelimit_"',
      )
    }
    const collectors = new Map<Metric, () => void>([
      [METRICS.decisions, () => this.#collect()],
      [METRICS.breakerState, () => this.#tellBreakers()],
    ])
    for (const metric of all) {
      const { kind, name, help, labels, buckets = [], shared } = metric
      const collect = shared ? () => this.#forgetOld(name) : collectors.get(metric)
      const plain = { name: prefix + name, help, labelNames: [...labels, ...labelNames], registers: [registry] }
      const common = collect === undefined ? plain : { ...plain, collect }
      if (kind === 'gauge') this.#byName.set(name, new Gauge(common))
      else if (kind === 'histogram') this.#byName.set(name, new Histogram({ ...plain, buckets: [...buckets] }))
      else this.#byName.set(name, new Counter(common))
    }
  }

  get isRegistered(): boolean {
    const { name } = METRICS.decisions
    return this.registry.getSingleMetric(this.prefix + name) === this.#byName.get(name)
  }

  /** The observer whose series carry these labels. */
  observer(labels: Labels): Observer {
    if (Object.keys(labels).sort().join() !== this.#labelNames.join()) {
      throw new PolicyError(
        `prometheusObserver: labels ${shown(labels)}: the registry's metrics have the labels ` +
          `[${this.#labelNames.join(', ')}]: expected these, or another prefix`,
      )
    }
    const id = JSON.stringify(this.#labelNames.map(name => labels[name]))
    let observer = this.#observers.get(id)
    if (observer === undefined) {
      const own = { ...labels }
      const counts = new DecisionCounts()
      this.#counts.push([own, counts])
      observer = metricsObserver(this.#sink(own), counts)
      this.#observers.set(id, observer)
    }
    return observer
  }

  #sink(own: Labels): MetricSink {
    const withOwn =
      this.#labelNames.length === 0 ? (labels: Labels) => labels : (labels: Labels) => ({ ...labels, ...own })
    const find = <Kind>(metric: Metric) => this.#byName.get(metric.name) as Kind
    this.#breakers.set(own, 0)
    return {
      add: (metric, by, labels) => {
        if (metric === METRICS.breakerState) this.#breakers.set(own, (this.#breakers.get(own) ?? 0) + by)
        else find<Counter>(metric).inc(withOwn(labels), by)
      },
      set: (metric, value, labels) => {
        const gauge = find<Gauge>(metric)
        gauge.set(withOwn(labels), value)
        if (metric.shared) this.#noteTold(gauge, withOwn(labels))
      },
      record: (metric, seconds, labels) => find<Histogram>(metric).observe(withOwn(labels), seconds),
      begin: (metric, labels) => {
        if (metric.kind === 'histogram') find<Histogram>(metric).zero(withOwn(labels))
        else find<Counter>(metric).inc(withOwn(labels), 0)
      },
    }
  }

  #noteTold(gauge: Gauge, labels: Labels): void {
    const told = getOrMake(this.#toldAt, gauge, () => new Map<string, readonly [Labels, number]>())
    told.set(JSON.stringify(labels), [labels, performance.now()])
  }

  #forgetOld(name: string): void {
    const gauge = this.#byName.get(name) as Gauge
    const told = this.#toldAt.get(gauge)
    for (const [id, [labels, at]] of told ?? []) {
      if (performance.now() - at <= SHARED_LIFE_MS) continue
      gauge.remove(labels)
      told?.delete(id)
    }
  }

  /** Not counted by the gauge itself, which `registry.resetMetrics()` would empty. */
  #tellBreakers(): void {
    const gauge = this.#byName.get(METRICS.breakerState.name) as Gauge
    for (const [labels, open] of this.#breakers) gauge.set(labels, open)
  }

  /** Hands on the decisions since the last time. */
  #collect(): void {
    const counter = this.#byName.get(METRICS.decisions.name) as Counter
    for (const [own, { cells }] of this.#counts) {
      for (const cell of cells) {
        counter.inc({ ...cell.labels, ...own }, cell.count)
        cell.count = 0
      }
    }
  }
}
