import { asyncDispose } from '../../../limiter/core/async-dispose.js'
import { type Clock, monotonicClock } from '../../../limiter/core/clock.js'
import type { Decision } from '../../../limiter/core/decision.js'
import { PolicyError, shown } from '../../../limiter/core/errors.js'
import { getOrMake } from '../../../limiter/core/maps.js'
import type { Observer } from '../../../limiter/core/observer.js'
import { checkClock, checkFunction, checkOptions, type OptionNames } from '../../../limiter/core/options.js'
import { emitWarning } from '../../../limiter/core/warnings.js'
import { LabelValues } from '../metrics.js'
import { type Alert, type AlertRule, AlertState, type CheckedRule, parseRule } from './alert-rule.js'
import { type AlertCondition, CONDITIONS } from './conditions.js'
import { DEFAULT_RULES } from './default-rules.js'

export type { Alert, AlertRule } from './alert-rule.js'
export type { AlertCondition } from './conditions.js'

/** Options of `alerts`. */
export interface AlertsOptions {
  /**
   * The rules, like `[{ name: 'refusals', when: 'denied-share', above: 0.1 }]`; each is evaluated separately. Default:
   * more than 10 % refused, 5 % decided without the store, any open breaker, messages 30 s late, new dead letters of
   * the last 10 minutes, and consumers that cannot work.
   */
  rules?: readonly AlertRule[]
  /**
   * Called once for each change of state, like `alert => log.warn(alert)`. Its errors become process warnings
   * (SPILLWAY_ALERT).
   */
  notify: (alert: Alert) => unknown
  /** Default: a monotonic clock. Pass another, like a `ManualClock`, only in tests and simulations. */
  clock?: Pick<Clock, 'now'>
}

/** An observer that alerts. */
export interface Alerts extends Observer, AsyncDisposable {
  /** The firing alerts, in the order of the rules. */
  readonly firing: readonly Alert[]
  /** Stops evaluating; `notify` is no longer called. */
  close(): Promise<void>
}

const NAMES: OptionNames<AlertsOptions> = { rules: true, notify: true, clock: true }
const JUDGED_EVERY_MS = 1000
/** The subject of breaker alerts: breakers belong to stores, not to limiters. */
const STORE = 'store'
/** The subject of rules about all queues together. */
const QUEUES = 'queues'

const OF_DECISIONS = (Object.keys(CONDITIONS) as AlertCondition[]).filter(when => CONDITIONS[when].of === 'limiter')

/**
 * An observer that reports when something is wrong, and when it is over: fires once when a value rises above `above`,
 * and is resolved once it falls to 0.8 × `above`. Evaluated every second by a timer that does not keep the process
 * alive, and at an event when a given `clock` has moved by a second or more. Each process evaluates its own events.
 * Memory and cost depend on the number of rules and limiters, not on traffic or keys; beyond 1000 limiters or queues
 * the rest is evaluated together as 'other'. Throws `PolicyError` for invalid options.
 */
export function alerts(options: AlertsOptions): Alerts {
  checkOptions('alerts', options, NAMES, '{ notify: alert => log(alert) }')
  const { rules = DEFAULT_RULES, notify, clock } = options
  if (!Array.isArray(rules)) throw new PolicyError(`alerts: rules ${shown(rules)}: expected a list of rules`)
  checkFunction(notify, 'alerts: notify', 'alert => console.error(alert)')
  if (clock !== undefined) checkClock(clock, 'alerts: clock')
  return new AlertEvaluator(rules.map(parseRule), notify, clock).observer()
}

class AlertEvaluator {
  readonly #rules: readonly CheckedRule[]
  readonly #notify: (alert: Alert) => unknown
  readonly #given: Clock | undefined
  readonly #clock: Clock
  /** By what is measured: the states of each subject. */
  readonly #decided = new Map<string, readonly AlertState[]>()
  readonly #late = new Map<string, readonly AlertState[]>()
  readonly #dead = new Map<string, readonly AlertState[]>()
  readonly #breakers: readonly AlertState[]
  readonly #failed: readonly AlertState[]
  readonly #names = new LabelValues()
  readonly #all: AlertState[] = []
  readonly #timer: ReturnType<typeof setInterval>
  /** The time of the timer's last tick, or of a given clock. It never goes back. */
  #now: number
  #judgedAt: number
  #closed = false

  constructor(rules: readonly CheckedRule[], notify: (alert: Alert) => unknown, clock: Clock | undefined) {
    this.#rules = rules
    this.#notify = notify
    this.#given = clock
    this.#clock = clock ?? monotonicClock
    this.#now = this.#judgedAt = this.#clock.now()
    this.#breakers = this.#open(['breaker-open'], STORE)
    this.#failed = rules.filter(({ when }) => when === 'consumer-failed').map(rule => this.#watched(rule, QUEUES))
    this.#timer = setInterval(() => {
      if (this.#given !== undefined) this.#tick()
      this.#judge()
      // Only now: events are dated by the last tick, so those of the interval that ends would already be older than
      // they are.
      this.#tick()
    }, JUDGED_EVERY_MS)
    this.#timer.unref()
  }

  /** Implements only the observer methods that a rule needs. */
  observer(): Alerts {
    const has = (...conditions: AlertCondition[]) => this.#rules.some(({ when }) => conditions.includes(when))
    const firing = () => this.#firing()
    const close = async () => this.#close()
    const observer: Observer = {
      ...(has(...OF_DECISIONS) && { decided: (decision, limiter) => this.#hear(decision, limiter) }),
      ...(has('breaker-open') && {
        breakerOpened: () => this.#count(this.#breakers, 1),
        breakerClosed: () => this.#count(this.#breakers, -1),
      }),
      ...(has('queue-lateness') && {
        delivered: ({ queue, latenessMs }) => {
          this.#count(this.#of(this.#late, ['queue-lateness'], queue), latenessMs)
        },
        // While nothing is delivered.
        level: ({ name, overdueMs }) => {
          if (overdueMs !== undefined) this.#count(this.#of(this.#late, ['queue-lateness'], name), overdueMs)
        },
      }),
      ...(has('dead-letters') && {
        settledDelivery: ({ queue, outcome }) => {
          this.#count(this.#of(this.#dead, ['dead-letters'], queue), outcome === 'dead' ? 1 : 0)
        },
      }),
      ...(has('consumer-failed') && { consumerFailed: ({ queue }) => this.#consumerFailed(queue) }),
    }
    const alerts: Alerts = { ...observer, close, [asyncDispose]: close, firing: [] }
    return Object.defineProperty(alerts, 'firing', { get: firing, enumerable: true })
  }

  #hear(decision: Decision, limiter: string): void {
    // Somebody has blocked this key: that it is refused is no news.
    if (decision.blocked) return
    if (this.#given !== undefined) this.#tick()
    for (const state of this.#of(this.#decided, OF_DECISIONS, limiter)) state.measure.decided?.(decision, this.#now)
    this.#judgeIfMoved()
  }

  #count(states: readonly AlertState[], value: number): void {
    if (this.#given !== undefined) this.#tick()
    for (const state of states) state.measure.counted?.(value, this.#now)
    this.#judgeIfMoved()
  }

  #consumerFailed(queue: string): void {
    if (this.#given !== undefined) this.#tick()
    const name = this.#names.of(queue)
    for (const { measure, rule } of this.#failed) {
      if (rule.limiter === undefined || rule.limiter === queue) measure.failed?.(name, this.#now)
    }
    this.#judgeIfMoved()
  }

  /** The states of one subject, created at its first event. */
  #of(
    bySubject: Map<string, readonly AlertState[]>,
    conditions: readonly AlertCondition[],
    given: string,
  ): readonly AlertState[] {
    const known = bySubject.get(given)
    if (known !== undefined) return known
    const subject = this.#names.of(given)
    return getOrMake(bySubject, subject, () => this.#open(conditions, subject))
  }

  #open(conditions: readonly AlertCondition[], subject: string): readonly AlertState[] {
    const rules = this.#rules.filter(
      ({ when, limiter }) => conditions.includes(when) && (limiter === undefined || limiter === subject),
    )
    return rules.map(rule => this.#watched(rule, subject))
  }

  #watched(rule: CheckedRule, subject: string): AlertState {
    const state = new AlertState(rule, rule.limiter ?? subject)
    this.#all.push(state)
    return state
  }

  #tick(): void {
    this.#now = Math.max(this.#now, this.#clock.now())
  }

  /** The timer evaluates in real time; a given clock is checked at each event. */
  #judgeIfMoved(): void {
    if (this.#given !== undefined && this.#now - this.#judgedAt >= JUDGED_EVERY_MS) this.#judge()
  }

  #judge(): void {
    this.#judgedAt = this.#now
    const at = new Date(this.#given?.now() ?? Date.now())
    for (const state of this.#all) {
      const alert = state.judge(this.#now, at)
      if (alert !== undefined && !this.#closed) this.#tell(alert)
    }
  }

  #tell(alert: Alert): void {
    try {
      const told: unknown = this.#notify(alert)
      if (told instanceof Promise) told.catch(warn)
    } catch (error) {
      warn(error)
    }
  }

  #firing(): readonly Alert[] {
    const place = new Map(this.#rules.map((rule, i) => [rule, i]))
    return this.#all
      .filter(({ firing }) => firing !== undefined)
      .sort((a, b) => (place.get(a.rule) ?? 0) - (place.get(b.rule) ?? 0))
      .map(({ firing }) => firing as Alert)
  }

  #close(): void {
    this.#closed = true
    clearInterval(this.#timer)
  }
}

function warn(error: unknown): void {
  emitWarning('SPILLWAY_ALERT', `alerts: notify threw: ${(error as Error)?.message ?? error}`)
}
