import { CALM_LEVEL, checkLoad, FULL_LEVEL, type LoadLevel } from '../../http/load.js'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import {
  type CalendarLimitOptions,
  type Limit,
  type LimitOptions,
  optionsOf,
  type PolicyInput,
  parsePolicy,
} from '../../limiter/core/limit.js'
import { checkFunction, checkOptions, type OptionNames } from '../../limiter/core/options.js'
import { PolicyMemo } from '../../limiter/core/policy-memo.js'
import { emitWarning } from '../../limiter/core/warnings.js'

const HALVE_EVERY_MS = 500
const RAISE_EVERY_MS = 1000
const RAISE_BY = 0.1

/**
 * A factor that follows a load: while the level is above 1 it is halved twice a second, down to `min`; below 0.7 it
 * rises by 0.1 a second, up to 1; between the two it stays. So it falls fast and rises slowly, and does not swing about
 * the edge.
 */
class LoadFactor {
  value = 1
  #changedAt = Number.NEGATIVE_INFINITY

  constructor(
    readonly load: LoadLevel,
    readonly min: number,
  ) {}

  /** Looks at the load. True if the factor has changed. */
  update(): boolean {
    const now = performance.now()
    const { level } = this.load
    const before = this.value
    const sinceMs = now - this.#changedAt
    if (level > FULL_LEVEL && sinceMs >= HALVE_EVERY_MS) this.value = Math.max(this.min, this.value / 2)
    else if (level < CALM_LEVEL && sinceMs >= RAISE_EVERY_MS) {
      // Sums of 0.1 are not exact.
      this.value = Math.min(1, Math.round((this.value + RAISE_BY) * 1e6) / 1e6)
    }
    if (this.value === before) return false
    this.#changedAt = now
    return true
  }
}

/** Options of `loadPolicy`. */
export interface LoadPolicyOptions {
  /** The load that the limits follow, like `processLoad()`. */
  load: LoadLevel
  /** The smallest factor, above 0 to 1; default 0.1. */
  min?: number
  /**
   * Default: none. Called when the factor changes, like `(factor, reason) => log.info({ factor, reason })`. Its errors
   * become process warnings.
   */
  onChange?: (factor: number, reason: string) => void
}

/** A function for the option `policy`. */
export interface LoadPolicy {
  (...context: readonly unknown[]): PolicyInput
  /** The present factor of quota and burst: `min` to 1. */
  readonly factor: number
}

const OPTIONS: OptionNames<LoadPolicyOptions> = { load: true, min: true, onChange: true }
const LOOK_EVERY_MS = 250

/**
 * A policy whose limits follow a load, for the option `policy` of a middleware or a `RateLimiter`: quota and burst are
 * multiplied by a factor from `min` to 1, rounded, and are at least 1 (a quota of 0 stays 0). The names of limits stay,
 * so that counts go on; a token-bucket or leaky-bucket keeps the share that is left. `policy` may be a function of the
 * request, or of the key. Throws `PolicyError`.
 */
export function loadPolicy(
  policy: PolicyInput | ((...context: never[]) => PolicyInput),
  options: LoadPolicyOptions,
): LoadPolicy {
  checkOptions('loadPolicy', options, OPTIONS, '{ load: processLoad() }')
  const { load, min = 0.1, onChange } = options
  checkLoad(load, 'loadPolicy')
  if (!(typeof min === 'number' && min > 0 && min <= 1)) {
    throw new PolicyError(`loadPolicy: min ${shown(min)}: expected a factor above 0 and at most 1, like 0.1`)
  }
  if (onChange !== undefined) checkFunction(onChange, 'loadPolicy: onChange', 'factor => log(factor)')
  if (typeof policy !== 'function') parsePolicy(policy)

  const factor = new LoadFactor(load, min)
  let scaled = memoFor(1)
  const look = () => {
    if (!factor.update()) return
    scaled = memoFor(factor.value)
    tell(onChange, factor.value, load.reason)
  }
  const answer = (...context: readonly unknown[]) =>
    scaled.of(typeof policy === 'function' ? policy(...(context as never[])) : policy)
  const following = Object.defineProperty(answer, 'factor', { get: () => factor.value }) as LoadPolicy
  lookWhile(new WeakRef(following), look)
  return following
}

/** Checks the load for as long as the policy is referenced. */
function lookWhile(used: WeakRef<LoadPolicy>, look: () => void): void {
  const timer = setInterval(() => {
    if (used.deref() === undefined) clearInterval(timer)
    else look()
  }, LOOK_EVERY_MS).unref()
}

function memoFor(factor: number): PolicyMemo<PolicyInput> {
  return new PolicyMemo<PolicyInput>(policy => {
    // A limit without an algorithm: the option `algorithm` of its limiter applies.
    const others = parsePolicy(policy, 'fixed-window')
    return Object.freeze(
      parsePolicy(policy, 'token-bucket').map((limit, i) => {
        return Object.freeze(scaledLimit(limit, factor, limit.algorithm === others[i].algorithm))
      }),
    )
  })
}

function scaledLimit(limit: Limit, factor: number, namesAlgorithm: boolean): LimitOptions | CalendarLimitOptions {
  const scaled = { ...optionsOf(limit), quota: scaledUnits(limit.quota, factor) }
  if (limit.calendar !== undefined) return scaled
  const { algorithm, burst, ...others } = scaled as LimitOptions
  if (!namesAlgorithm) return others
  return burst === undefined ? { ...others, algorithm } : { ...others, algorithm, burst: scaledUnits(burst, factor) }
}

function scaledUnits(units: number, factor: number): number {
  return units === 0 ? 0 : Math.max(1, Math.round(units * factor))
}

function tell(onChange: LoadPolicyOptions['onChange'], factor: number, reason: string): void {
  try {
    onChange?.(factor, reason)
  } catch (error) {
    emitWarning('SPILLWAY_LOAD', `loadPolicy: onChange threw: ${(error as Error)?.message ?? error}`)
  }
}
