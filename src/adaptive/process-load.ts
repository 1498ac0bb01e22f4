import { performance } from 'node:perf_hooks'
import { getHeapStatistics } from 'node:v8'
import { type Duration, parseOption } from '../core/duration.js'
import { PolicyError, shown } from '../core/errors.js'
import { checkOptions, type OptionNames } from '../core/option-names.js'
import { containerCpus } from './container-cpus.js'
import { EventLoopDelay } from './event-loop-delay.js'
import { CALM_LEVEL, type Load, parseEvery, SmoothLevel } from './load.js'

/** Options of `processLoad`: what is healthy. Each measurement is divided by its threshold; the largest is the level. */
export interface ProcessLoadOptions {
  /** Delay of the event loop, 99th percentile; default '70ms'. */
  eventLoopDelayP99?: Duration
  /** Share of time that the event loop is busy, above 0 to 1; default 0.95. */
  utilization?: number
  /** Share of the processors that the container lets this process use, above 0 to 1; default 0.9. */
  cpu?: number
  /** Share of the heap's limit, above 0 to 1; default 0.9. */
  heap?: number
  /** How often to measure, 100 ms to 1 s; default '500ms'. */
  every?: Duration
}

const OPTIONS: OptionNames<ProcessLoadOptions> = {
  eventLoopDelayP99: true,
  utilization: true,
  cpu: true,
  heap: true,
  every: true,
}

type Reason = Exclude<Load['reason'], 'none' | 'custom'>

/**
 * How busy this process is: delay and utilisation of its event loop, processor time against what its container may use (cgroup quotas), heap
 * against its limit. Takes less than 0.2 % of a core and keeps no process alive. What a runtime does not tell is left out: Bun and Deno the
 * utilisation, Bun also the heap's limit. Throws `PolicyError` for options that mean nothing.
 */
export function processLoad(options: ProcessLoadOptions = {}): Load {
  checkOptions('processLoad', options, OPTIONS, "{ eventLoopDelayP99: '70ms' }")
  const { eventLoopDelayP99 = 70, utilization = 0.95, cpu = 0.9, heap = 0.9 } = options
  const delayMs = parseOption(eventLoopDelayP99, 'processLoad: eventLoopDelayP99')
  for (const [name, share] of Object.entries({ utilization, cpu, heap })) checkShare(name, share)
  const everyMs = parseEvery(options.every, 'processLoad')
  return new ProcessLoad({ delayMs, utilization, cpu, heap }, everyMs)
}

interface Thresholds {
  readonly delayMs: number
  readonly utilization: number
  readonly cpu: number
  readonly heap: number
}

class ProcessLoad implements Load {
  readonly #thresholds: Thresholds
  readonly #smooth = new SmoothLevel()
  readonly #cpus = containerCpus()
  readonly #delay = new EventLoopDelay()
  readonly #timer: ReturnType<typeof setInterval>
  #utilization = performance.eventLoopUtilization()
  #cpu = process.cpuUsage()
  #measuredAt = performance.now()
  #reason: Reason = 'event-loop'

  constructor(thresholds: Thresholds, everyMs: number) {
    this.#thresholds = thresholds
    this.#timer = setInterval(() => this.#measure(), everyMs).unref()
  }

  get level(): number {
    return this.#smooth.level
  }

  get reason(): Load['reason'] {
    return this.level < CALM_LEVEL ? 'none' : this.#reason
  }

  close(): void {
    clearInterval(this.#timer)
    this.#delay.close()
  }

  #measure(): void {
    const { delayMs, utilization, cpu, heap } = this.#thresholds
    const { used_heap_size, heap_size_limit } = getHeapStatistics()
    const measured: readonly (readonly [Reason, number])[] = [
      ['event-loop', this.#delay.takeMs() / delayMs],
      ['event-loop', this.#busyShare() / utilization],
      ['cpu', this.#cpuShare() / cpu],
      ['memory', used_heap_size / heap_size_limit / heap],
    ]
    const [reason, level] = measured.reduce((most, one) => (one[1] > most[1] ? one : most))
    this.#smooth.add(level)
    this.#reason = reason
  }

  #busyShare(): number {
    const now = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(now, this.#utilization)
    this.#utilization = now
    return utilization
  }

  #cpuShare(): number {
    const [usage, now] = [process.cpuUsage(this.#cpu), performance.now()]
    const share = (usage.user + usage.system) / 1000 / ((now - this.#measuredAt) * this.#cpus)
    this.#cpu = process.cpuUsage()
    this.#measuredAt = now
    return share
  }
}

function checkShare(name: string, share: unknown): void {
  if (typeof share === 'number' && share > 0 && share <= 1) return
  throw new PolicyError(`processLoad: ${name} ${shown(share)}: expected a share above 0 and at most 1, like 0.9`)
}
