import { setTimeout as sleep } from 'node:timers/promises'
import { checkLoad, type Load } from '../../http/load.js'
import { type Duration, parseOption } from '../../limiter/core/duration.js'
import { PolicyError, shown, shownOther } from '../../limiter/core/errors.js'
import { checkInteger, checkOptions, type OptionNames } from '../../limiter/core/options.js'
import type { RateConfig } from '../../waiting/rate/options.js'
import { SharedRateLimiter } from '../../waiting/rate/shared-rate-limiter.js'
import { Semaphore } from '../../waiting/semaphore/semaphore.js'
import { noteObject } from '../object-index.js'
import { LoadFactor } from './load-policy.js'

/** Options of `followLoad`. */
export interface FollowLoadOptions {
  /**
   * The load that the rate follows. The writing process's own load counts, so use a load that is the same for all
   * processes.
   */
  load: Load
  /** The least permits per interval; integer ≥ 1. */
  min: number
  /** The most permits per interval; integer ≥ `min`. */
  max: number
  /** Length of the interval, like '1s'. */
  interval: Duration
}

/** What `followLoad` gives. */
export interface LoadFollower {
  /** Ends it; the rate stays as it is. */
  close(): Promise<void>
}

const OPTIONS: OptionNames<FollowLoadOptions> = { load: true, min: true, max: true, interval: true }

/** The writer gives up its turn after this time. */
const TURN_MS = 5000
const LEASE_MS = 10_000
const LOOK_EVERY_MS = 250
const TRY_AGAIN_MS = 1000

/** The kind under which the index of objects has the followers of rates. */
export const FOLLOWER = 'follower'

/** The name of the semaphore whose holder writes a rate: while nobody holds it or waits for it, nobody follows. */
export function turnsOf(rate: string): string {
  return `follow-load:${rate}`
}

/**
 * Adapts a shared rate to a load: at most one process of the fleet writes at a time, for five seconds. While its load
 * is above 1 the rate is halved twice a second, down to `min`; below 0.7 it rises by a tenth of `max` a second. What
 * was taken still counts. While Redis is away nothing is written. A rate that somebody else sets, in whatever interval,
 * is brought within the bounds within five seconds and followed from there: to hold a rate down, end the follower or
 * lower its `max`. Throws `PolicyError`.
 */
export function followLoad(rate: SharedRateLimiter, options: FollowLoadOptions): LoadFollower {
  const example = "{ load, min: 10, max: 100, interval: '1s' }"
  checkOptions('followLoad', options, OPTIONS, example)
  if (!(rate instanceof SharedRateLimiter)) {
    throw new PolicyError(
      `followLoad: rate ${shownOther(rate, 'SharedRateLimiter')}: expected a SharedRateLimiter, like new ` +
        "SharedRateLimiter(redis, 'mail')",
    )
  }
  const { load, min, max, interval } = options
  checkLoad(load, 'followLoad')
  checkInteger(min, 'followLoad: min', example, 1)
  if (!(Number.isSafeInteger(max) && max >= min)) {
    throw new PolicyError(`followLoad: max ${shown(max)}: expected an integer ≥ min, like ${example}`)
  }
  return new RateFollower(rate, load, { min, max, intervalMs: parseOption(interval, 'followLoad: interval') })
}

/** Within what a rate is steered, per interval. */
export interface Bounds {
  readonly min: number
  readonly max: number
  readonly intervalMs: number
}

class RateFollower {
  readonly #rate: SharedRateLimiter
  readonly #load: Load
  readonly #bounds: Bounds
  readonly #turns: Semaphore
  readonly #closing = new AbortController()
  readonly #running: Promise<void>

  constructor(rate: SharedRateLimiter, load: Load, bounds: Bounds) {
    this.#rate = rate
    this.#load = load
    this.#bounds = bounds
    const { client, name, prefix } = rate
    this.#turns = new Semaphore(client, turnsOf(name), { permits: 1, fixed: true, prefix, idleTtl: '1m' })
    noteObject(client, FOLLOWER, name, prefix, this, bounds)
    this.#running = this.#run()
  }

  /** Ends it. */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.#running
    await this.#turns.close()
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing
    while (!signal.aborted) {
      try {
        await this.#turns.use(lease => this.#write(lease.signal), { lease: LEASE_MS, signal })
      } catch {
        // Redis is away, or this closes.
        await pause(TRY_AGAIN_MS, signal)
      }
    }
  }

  /** Writes for one turn, or until it is lost. */
  async #write(lost: AbortSignal): Promise<void> {
    const { min, max } = this.#bounds
    const signal = AbortSignal.any([this.#closing.signal, lost])
    const endsAt = performance.now() + TURN_MS
    const factor = new LoadFactor(this.#load, min / max)
    let written = await this.#start()
    factor.value = written / max
    while (!signal.aborted && performance.now() < endsAt) {
      factor.update()
      const rate = Math.max(min, Math.round(factor.value * max))
      if (rate !== written) await this.#set(rate, await this.#rate.getConfig())
      written = rate
      await pause(LOOK_EVERY_MS, signal)
    }
  }

  /**
   * The rate that was set last, by a writer or an operator, for our interval and within our bounds; `max` if none is
   * set.
   */
  async #start(): Promise<number> {
    const { min, max, intervalMs } = this.#bounds
    const config = await this.#rate.getConfig()
    const set = config === null ? max : Math.round((config.rate * intervalMs) / config.intervalMs)
    const rate = Math.min(max, Math.max(min, set))
    if (config?.rate !== rate || config.intervalMs !== intervalMs) await this.#set(rate, config)
    return rate
  }

  /** Mode and lifetime stay as they were set. */
  async #set(rate: number, config: RateConfig | null): Promise<void> {
    const { mode = 'overall', keepAliveMs = null } = config ?? {}
    const keepAlive = keepAliveMs === null ? {} : { keepAlive: Math.max(keepAliveMs, this.#bounds.intervalMs) }
    await this.#rate.setRate({ rate, interval: this.#bounds.intervalMs, mode, ...keepAlive }, { keepState: true })
  }
}

/** Ends early when the signal is aborted. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal, ref: false }).catch(() => {})
}
