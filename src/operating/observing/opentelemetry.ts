import {
  type Attributes,
  type Counter,
  type Histogram,
  type Meter,
  metrics,
  type UpDownCounter,
} from '@opentelemetry/api'
import { PolicyError, shown } from '../../limiter/core/errors.js'
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

/** Options of `openTelemetryObserver`. */
export interface OpenTelemetryOptions {
  /** A `Meter`. Default: `metrics.getMeter('spillway')`, of the provider that is set when this is called. */
  meter?: object
  /**
   * Attributes that every series carries, such as `{ region: 'eu' }`. Default: none. Not those that a metric has
   * already.
   */
  attributes?: Record<string, string>
}

const NAMES: OptionNames<OpenTelemetryOptions> = { meter: true, attributes: true }
const ATTRIBUTE = /^[^\s]+$/

/**
 * An observer that measures with OpenTelemetry; `@opentelemetry/api` must be installed, and a `MeterProvider` set
 * before this is called. Give it to everything that should be measured. docs/observing.md lists the metrics, which are
 * named after those of ASP.NET's rate limiting. Attributes never hold a key, and have at most 1000 values each; what
 * comes later is counted under 'other'. Make one for each meter. Throws `PolicyError` for options that mean nothing.
 */
export function openTelemetryObserver(options: OpenTelemetryOptions = {}): Observer {
  checkOptions('openTelemetryObserver', options, NAMES, "{ attributes: { region: 'eu' } }")
  if (options.meter === undefined && metrics === undefined) {
    throw new PolicyError(
      'openTelemetryObserver: this @opentelemetry/api has no metrics: expected version 1.9 or later (npm ' +
        'install @opentelemetry/api@latest)',
    )
  }
  const { meter = metrics.getMeter('spillway'), attributes = {} } = options
  if (typeof (meter as Meter | null)?.createHistogram !== 'function') {
    throw new PolicyError(
      `openTelemetryObserver: meter ${shown(meter)}: expected a Meter, like metrics.getMeter('my-service')`,
    )
  }
  checkExtraLabels(attributes, 'openTelemetryObserver: attributes', ATTRIBUTE)
  const counts = new DecisionCounts()
  return metricsObserver(new OpenTelemetrySink(meter as Meter, { ...attributes }, counts), counts)
}

class OpenTelemetrySink implements MetricSink {
  readonly #sums = new Map<Metric, Counter | UpDownCounter>()
  readonly #histograms = new Map<Metric, Histogram>()
  /**
   * What each gauge was last set to: an UpDownCounter is told by how much it changes, so that the levels of processes
   * add up.
   */
  readonly #levels = new Map<string, number>()
  /** By shared gauge, then by labels: what was told last, and when by `performance.now()`. */
  readonly #shared = new Map<Metric, Map<string, readonly [value: number, at: number, labels: Labels]>>()

  constructor(
    meter: Meter,
    readonly own: Attributes,
    counts: DecisionCounts,
  ) {
    const all: readonly Metric[] = Object.values(METRICS)
    for (const metric of all) {
      const { kind, instrument, unit, help: description, buckets } = metric
      const options = { description, unit }
      if (metric === METRICS.decisions) {
        meter.createObservableCounter(instrument, options).addCallback(result => {
          for (const { count, labels } of counts.cells) result.observe(count, this.#with({ ...labels }))
        })
      } else if (metric.shared) {
        // A sum over processes would count what all of them tell once for each.
        const told = new Map<string, readonly [value: number, at: number, labels: Labels]>()
        this.#shared.set(metric, told)
        meter.createObservableGauge(instrument, options).addCallback(result => {
          for (const [value, at, labels] of told.values()) {
            if (performance.now() - at <= SHARED_LIFE_MS) result.observe(value, this.#with(labels))
          }
        })
      } else if (kind === 'histogram') {
        const advice = { explicitBucketBoundaries: [...(buckets ?? [])] }
        this.#histograms.set(metric, meter.createHistogram(instrument, { ...options, advice }))
      } else {
        const sum =
          kind === 'counter' ? meter.createCounter(instrument, options) : meter.createUpDownCounter(instrument, options)
        this.#sums.set(metric, sum)
      }
    }
    this.add(METRICS.breakerState, 0, {})
  }

  add(metric: Metric, by: number, labels: Labels): void {
    this.#sums.get(metric)?.add(by, this.#with(labels))
  }

  set(metric: Metric, value: number, labels: Labels): void {
    const shared = this.#shared.get(metric)
    if (shared !== undefined) {
      shared.set(JSON.stringify(labels), [value, performance.now(), labels])
      return
    }
    const id = JSON.stringify([metric.name, labels])
    this.add(metric, value - (this.#levels.get(id) ?? 0), labels)
    this.#levels.set(id, value)
  }

  record(metric: Metric, seconds: number, labels: Labels): void {
    this.#histograms.get(metric)?.record(seconds, this.#with(labels))
  }

  /** A histogram of OpenTelemetry has no series before its first value. */
  begin(metric: Metric, labels: Labels): void {
    if (metric.kind === 'counter') this.add(metric, 0, labels)
  }

  #with(labels: Labels): Attributes {
    return { ...labels, ...this.own }
  }
}
