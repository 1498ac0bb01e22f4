import type { AlertRule, CheckedRule } from './alert-rule.js'
import { CONDITIONS, type Measure } from './conditions.js'

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
  /** The limiter or queue; 'store' for breakers. */
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
