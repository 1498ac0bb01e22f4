import type { AdaptivePermits, PermitsByDuration } from '../../http/concurrency/permits.js'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import { checkInteger, checkOptions, type ForeignNames, type OptionNames } from '../../limiter/core/options.js'
import { Gradient } from './gradient.js'

/** Options of `adaptivePermits`. */
export interface AdaptivePermitsOptions {
  /** The least permits, integer ≥ 1; default 5. */
  min?: number
  /** The most permits, integer ≥ `min`; default 1000. */
  max?: number
  /** The initial permits, integer from `min` to `max`; default 20, or the nearest allowed number. */
  initial?: number
}

const OPTIONS: OptionNames<AdaptivePermitsOptions> = { min: true, max: true, initial: true }
const GONE: ForeignNames = [['max', 'there is one algorithm, gradient: leave the option out', 'algorithm']]

/** A sampling window lasts from 100 to 250 ms: it ends with ten samples, or after its longest time with what it has. */
const LEAST_WINDOW_MS = 100
const MOST_WINDOW_MS = 250
const ENOUGH_SAMPLES = 10

/**
 * Finds how many requests may be inside at once from how long they take, so that they do not wait for each other: for
 * the option `permits` of one `concurrencyLimit`. Bounds hold for each process. How long the service takes without load
 * is known only if there was little load at first. Throws `PolicyError`.
 */
export function adaptivePermits(options: AdaptivePermitsOptions = {}): AdaptivePermits {
  checkOptions('adaptivePermits', options, OPTIONS, '{ min: 5, max: 200 }', GONE)
  const { min = 5, max = 1000 } = options
  checkInteger(min, 'adaptivePermits: min', 5, 1)
  checkCount('max', max, min, 'an integer ≥ min, like 1000')
  const { initial = Math.min(max, Math.max(min, 20)) } = options
  if (checkCount('initial', initial, min, 'an integer from min to max, like 20') > max) {
    throw new PolicyError(`adaptivePermits: initial ${shown(initial)}: expected an integer from min to max, like 20`)
  }
  return new MeasuredPermits({ min, max, initial })
}

function checkCount(name: string, value: unknown, least: number, expected: string): number {
  if (Number.isSafeInteger(value) && (value as number) >= least) return value as number
  throw new PolicyError(`adaptivePermits: ${name} ${shown(value)}: expected ${expected}`)
}

interface Bounds {
  readonly min: number
  readonly max: number
  readonly initial: number
}

/** Receives the requests of one `concurrencyLimit`, and provides the limit. */
export class MeasuredPermits implements PermitsByDuration {
  readonly #gradient = new Gradient()
  readonly #bounds: Bounds
  readonly #now: () => number
  #estimate: number
  #inUse = 0
  #windowAt: number
  #sumMs = 0
  #samples = 0
  #mostInUse = 0

  /** `now`: a monotonic clock in ms. */
  constructor(bounds: Bounds, now = () => performance.now()) {
    this.#bounds = bounds
    this.#now = now
    this.#estimate = bounds.initial
    this.#windowAt = now()
  }

  get limit(): number {
    return Math.floor(this.#estimate)
  }

  get inUse(): number {
    return this.#inUse
  }

  enter(): (counts: boolean) => void {
    this.#inUse++
    this.#mostInUse = Math.max(this.#mostInUse, this.#inUse)
    const enteredAt = this.#now()
    return counts => {
      this.#inUse--
      const now = this.#now()
      if (counts) {
        this.#sumMs += now - enteredAt
        this.#samples++
      }
      this.#endWindow(now)
    }
  }

  #endWindow(now: number): void {
    const age = now - this.#windowAt
    if (this.#samples === 0 || age < LEAST_WINDOW_MS) return
    if (this.#samples < ENOUGH_SAMPLES && age < MOST_WINDOW_MS) return
    const { min, max } = this.#bounds
    const inFlight = this.#mostInUse
    const sample = { rttMs: this.#sumMs / this.#samples, inFlight, usedUp: inFlight >= this.limit }
    // A time of 0 would divide by it.
    if (sample.rttMs > 0) this.#estimate = Math.min(max, Math.max(min, this.#gradient.next(this.#estimate, sample)))
    this.#windowAt = now
    this.#sumMs = this.#samples = 0
    this.#mostInUse = this.#inUse
  }
}
