import { type Duration, parseDurationOrZero, parseOption } from '../../../limiter/core/duration.js'
import { PolicyError, shown } from '../../../limiter/core/errors.js'
import { checkInteger, checkOptions, checkText, type OptionNames } from '../../../limiter/core/options.js'
import { type AlertCondition, type Bounds, CONDITIONS, type Measure } from './conditions.js'

/** A condition for an alert. */
export interface AlertRule {
  /** Names the rule in alerts; not empty. */
  name: string
  /**
   * The measured value. Shares of decisions, without those of blocked keys: refused ('denied-share'; shadow mode
   * refuses nothing), made by the failure policy ('degraded-share'), leaving at most a fifth of the quota
   * ('near-limit-share'), or by the busiest key ('one-key-share'; at most 1 % less than the true share). 'breaker-open': the number of open breakers.
   * 'queue-lateness': the largest lateness of a delivery, or of a message that is overdue while nothing is delivered,
   * ms. 'dead-letters': the number of deliveries that became dead letters. 'consumer-failed': the number of queues
   * whose consumers cannot work.
   */
  when: AlertCondition
  /** Fires above this: a share from 0 to 1, ms, or a count; 0 means any. */
  above: number
  /**
   * The time over which the value is measured. Default '1m', at least '1s'. Up to a second more counts, of more than a
   * minute up to a sixtieth more ('one-key-share': up to a sixth). Ignored for 'breaker-open' and 'consumer-failed'.
   */
  over?: Duration
  /** How long the condition must hold before the alert fires. Default 0: at once. */
  for?: Duration | 0
  /**
   * Only this limiter or queue. Default: each one separately, with its name in `subject`; for 'consumer-failed' all
   * queues together. Not for 'breaker-open', which is independent of limiters.
   */
  limiter?: string
  /** The decisions in `over` that a share requires: with fewer, nothing fires. Integer ≥ 0, default 20. */
  atLeast?: number
}

/** A rule, checked, with its defaults. */
export interface CheckedRule extends Bounds {
  /** As it was given. */
  readonly rule: AlertRule
  readonly when: AlertCondition
  readonly forMs: number
  readonly limiter: string | undefined
}

const NAMES: OptionNames<AlertRule> = {
  name: true,
  when: true,
  above: true,
  over: true,
  for: true,
  limiter: true,
  atLeast: true,
}
const EXAMPLE = "{ name: 'refusals', when: 'denied-share', above: 0.1 }"

/** Throws `PolicyError`. */
export function parseRule(rule: AlertRule): CheckedRule {
  if (typeof rule !== 'object' || rule === null)
    throw new PolicyError(`alerts: rule ${shown(rule)}: expected ${EXAMPLE}`)
  checkOptions('alerts: rule', rule, NAMES, EXAMPLE)
  const { name, when, above, over = '1m', limiter, atLeast = 20 } = rule
  checkText(name, 'alerts: rule: name', 'refusals')
  const user = `alerts: rule ${shown(name)}`
  if (typeof when !== 'string' || !Object.hasOwn(CONDITIONS, when)) {
    throw new PolicyError(
      `${user}: when ${shown(when)}: expected one of ${Object.keys(CONDITIONS).join(', ')}, like "denied-share"`,
    )
  }
  if (typeof above !== 'number' || !(above >= 0) || !Number.isFinite(above)) {
    throw new PolicyError(`${user}: above ${shown(above)}: expected a number ≥ 0, like 0.1`)
  }
  if (CONDITIONS[when].unit === 'share' && above >= 1) {
    throw new PolicyError(`${user}: above ${above}: expected a share below 1, like 0.1 for a tenth`)
  }
  if (limiter !== undefined && (typeof limiter !== 'string' || limiter === '' || when === 'breaker-open')) {
    const expected =
      when === 'breaker-open' ? 'none: a breaker belongs to a store' : 'a text that is not empty, like "api"'
    throw new PolicyError(`${user}: limiter ${shown(limiter)}: expected ${expected}`)
  }
  checkInteger(atLeast, `${user}: atLeast`, 20, 0)
  const overMs = parseOption(over, `${user}: over`)
  if (overMs < 1000) throw new PolicyError(`${user}: over ${shown(over)}: expected at least a second, like "1m"`)
  const forMs = parseDurationOrZero(rule.for ?? 0, `${user}: for`)
  return { rule, when, above, overMs, forMs, limiter, atLeast }
}

/** A change of state, as passed to `notify`. */
export interface Alert {
  /** As it was given. */
  readonly rule: AlertRule
  /** 'firing': the value has risen above `above`. 'resolved': it has fallen to 0.8 × `above` or less. */
  readonly state: 'firing' | 'resolved'
  /** What was measured. */
  readonly value: number
  /** When the state changed. */
  readonly at: Date
  /** The limiter or queue; 'store' for breakers, 'queues' for all queues together. */
  readonly subject: string
}

/** Below this part of `above` an alert is resolved, so that a value near the threshold does not alert repeatedly. */
const RESOLVES_AT = 0.8

/** The state of one rule for one subject. */
export class AlertState {
  readonly measure: Measure
  firing: Alert | undefined
  /** Since when the value has been above. */
  #since: number | undefined

  constructor(
    readonly rule: CheckedRule,
    readonly subject: string,
  ) {
    this.measure = CONDITIONS[rule.when].measure(rule)
  }

  /** The change of state at this moment, if there is one. `at` is that moment as a date. */
  judge(now: number, at: Date): Alert | undefined {
    const { rule, above, forMs } = this.rule
    const { value, enough } = this.measure.value(now)
    if (value > above && (enough || this.firing !== undefined)) {
      this.#since ??= now
      if (this.firing !== undefined || now - this.#since < forMs) return undefined
      this.firing = Object.freeze({ rule, state: 'firing', value, at, subject: this.subject })
      return this.firing
    }
    this.#since = undefined
    if (this.firing === undefined || value > RESOLVES_AT * above) return undefined
    this.firing = undefined
    return Object.freeze({ rule, state: 'resolved', value, at, subject: this.subject })
  }
}
