import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { getHeapStatistics } from 'node:v8'
import { CALM_LEVEL, type Load } from '../../http/load.js'
import { asyncDispose } from '../../limiter/core/async-dispose.js'
import { type Duration, parseOption } from '../../limiter/core/duration.js'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import { checkOptions, type OptionNames } from '../../limiter/core/options.js'
import { parseEvery, SmoothLevel } from './load.js'

/**
 * How many processors this process may use: those of the machine, or fewer if a container or a service has a quota
 * (cgroup version 1 or 2, in its own group or in one above it). May be a fraction. `root` stands for / in tests.
 */
export function containerCpus(root = '/', machine = availableParallelism()): number {
  let least = machine
  for (const line of (textOf(join(root, 'proc/self/cgroup')) ?? '').split('\n')) {
    const [, controllers, path] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? []
    if (path === undefined) continue
    if (controllers === '') least = Math.min(least, quotaOf(join(root, 'sys/fs/cgroup'), path, version2))
    else if (controllers.split(',').includes('cpu')) {
      least = Math.min(least, quotaOf(join(root, 'sys/fs/cgroup/cpu'), path, version1))
    }
  }
  return least
}

/**
 * The smallest quota of a group and those above it. In a container the group named in /proc may be mounted as the root.
 */
function quotaOf(mount: string, path: string, read: (folder: string) => number): number {
  let least = read(mount)
  for (let group = path; group !== '/'; group = dirname(group)) least = Math.min(least, read(join(mount, group)))
  return least
}

/** cpu.max: "quota period" in µs, or "max period". */
function version2(folder: string): number {
  const [quota, period] = (textOf(join(folder, 'cpu.max')) ?? '').trim().split(' ').map(Number)
  return cpusOf(quota, period)
}

/** cpu.cfs_quota_us is -1 without a quota. */
function version1(folder: string): number {
  return cpusOf(
    Number(textOf(join(folder, 'cpu.cfs_quota_us')) ?? Number.NaN),
    Number(textOf(join(folder, 'cpu.cfs_period_us')) ?? Number.NaN),
  )
}

function cpusOf(quota: number, period: number): number {
  return quota > 0 && period > 0 ? quota / period : Number.POSITIVE_INFINITY
}

function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

const EVERY_MS = 50

/**
 * How late a timer rings. Not `monitorEventLoopDelay`: in Node it loses the delay that follows each reset, in Deno
 * those of a loop that never rests, and in Bun a reset by one user takes it from all.
 */
class EventLoopDelay {
  #dueAt = performance.now() + EVERY_MS
  #longestMs = 0
  readonly #timer = setInterval(() => {
    this.#longestMs = this.#sofarMs()
    this.#dueAt = performance.now() + EVERY_MS
  }, EVERY_MS).unref()

  /** The longest delay since it was asked last. Of at most twenty a second that is the 99th percentile. */
  takeMs(): number {
    const longestMs = this.#sofarMs()
    this.#longestMs = 0
    return longestMs
  }

  close(): void {
    clearInterval(this.#timer)
  }

  /** The timer may be due and not have rung. */
  #sofarMs(): number {
    return Math.max(this.#longestMs, performance.now() - this.#dueAt)
  }
}

/**
 * Options of `processLoad`: what is healthy. Each measurement is divided by its threshold; the largest is the level.
 */
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
 * How busy this process is: delay and utilisation of its event loop, processor time against what its container may use
 * (cgroup quotas), heap against its limit. Takes about 0.4 % of a core and keeps no process alive. What a runtime
 * does not tell is left out: Bun and Deno the utilisation, Bun also the heap's limit. Throws `PolicyError` for options
 * that mean nothing.
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

  async close(): Promise<void> {
    clearInterval(this.#timer)
    this.#delay.close()
  }

  [asyncDispose](): Promise<void> {
    return this.close()
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
