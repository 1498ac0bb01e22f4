import { Alarm } from '../limiter/core/alarms.js'
import { formatDuration } from '../limiter/core/duration.js'
import { shown } from '../limiter/core/errors.js'
import { getOrMake } from '../limiter/core/maps.js'
import { HoldWatch, LevelMeters, WaitWatch } from '../limiter/core/meters.js'
import type { Observer } from '../limiter/core/observer.js'
import { emitWarning } from '../limiter/core/warnings.js'
import type { Guarded } from '../limiter/guarded.js'
import type { RedisClient } from '../redis/client.js'
import { Account, Places } from './account.js'
import { type CheckedLimits, NO_LIMITS } from './options.js'
import { Pause, RedisPause } from './pause.js'

/** How often the observer is told how much of a budget is used, while any of it is. */
const REPORT_EVERY_MS = 1000

/** One partner: its limits, and the pause that it has asked for. */
export class Partner {
  readonly accounts: readonly Account[]
  readonly places: Places | undefined
  readonly pause: Pause
  /** For each wait of a call: of the places and of each budget. */
  readonly watches: readonly WaitWatch[]
  readonly holds: HoldWatch | undefined
  /** Calls that wait, are under way, or whose cost is still to be settled. */
  calls = 0
  readonly #longestPauseMs: number
  readonly #meters: readonly LevelMeters[]
  readonly #reportAlarm = new Alarm(() => this.report(), false)
  /** Until when no further warning of a cut pause is given, by `performance.now()`. */
  #warnedUntil = Number.NEGATIVE_INFINITY

  constructor(
    readonly name: string,
    limits: CheckedLimits | undefined,
    redis: { readonly client: RedisClient; readonly prefix: string; readonly guarded: Guarded } | undefined,
    observer: Observer | undefined,
  ) {
    const { budgets, shorthand, concurrency, longestPauseMs } = limits ?? NO_LIMITS
    this.#longestPauseMs = longestPauseMs
    this.accounts = budgets.map(budget => new Account(name, budget))
    this.places = Number.isFinite(concurrency) ? new Places(name, concurrency) : undefined
    this.pause =
      redis === undefined ? new Pause() : new RedisPause({ ...redis, partner: name, longestMs: longestPauseMs })
    const names = budgets.map(budget => (budget.name === shorthand ? name : `${name} ${budget.name}`))
    this.holds = this.places && new HoldWatch(observer, 'semaphore', name)
    const rates = names.map(one => new WaitWatch(observer, 'rate', one))
    this.watches = this.holds === undefined ? rates : [this.holds, ...rates]
    this.#meters = names.map(one => new LevelMeters(observer, 'rate', one))
  }

  /** True if this process knows how many calls the partner allows in a time. */
  get isLimited(): boolean {
    return this.accounts.length > 0
  }

  /** True if there is nothing to wait for and no call is under way. */
  get idle(): boolean {
    if (this.calls > 0 || this.pause.leftMs > 0) return false
    const now = performance.now()
    for (const account of this.accounts) account.update(now)
    return this.accounts.every(({ used }) => used === 0)
  }

  /** The partner has asked for a pause. A longer one than `longestPause` is cut. */
  asksFor(pauseMs: number): void {
    const longestMs = this.#longestPauseMs
    if (pauseMs > longestMs) this.#warn(pauseMs)
    this.pause.begin(Math.min(pauseMs, longestMs))
  }

  /** Ends the pause, in all processes. Rejects with `StoreError` if Redis fails. */
  async resume(): Promise<void> {
    this.#warnedUntil = Number.NEGATIVE_INFINITY
    await this.pause.resume()
  }

  /**
   * Tells the observer how much of each budget is used. Units end without an event, so this looks again while there are
   * any.
   */
  report(): void {
    let sum = 0
    for (const [index, meters] of this.#meters.entries()) {
      const heard = meters.heard
      if (heard.length === 0) continue
      const account = this.accounts[index]
      const { rate, intervalMs } = account.budget
      const used = account.usedByAll(performance.now())
      sum += used
      const debt = Math.max(0, used - rate)
      for (const meter of heard) meter.set({ used, debt, rate, intervalMs })
    }
    if (sum > 0) this.#reportAlarm.set(performance.now() + REPORT_EVERY_MS)
  }

  /** Once for each pause, although several answers may ask for it. */
  #warn(askedMs: number): void {
    const now = performance.now()
    if (now < this.#warnedUntil) return
    this.#warnedUntil = now + this.#longestPauseMs
    emitWarning(
      'SPILLWAY_PAUSE',
      `politeFetch: ${this.name} asked for a pause of ${formatDuration(askedMs)}, which is cut to ` +
        `${formatDuration(this.#longestPauseMs)} (longestPause). resume(${shown(this.name)}) ends it earlier.`,
    )
  }
}

/** How often partners that have nothing to wait for are forgotten. */
const FORGET_EVERY_MS = 10_000

/** The partners that are being called, or that have something to wait for. */
export class Partners {
  readonly #partners = new Map<string, Partner>()
  readonly #open: (name: string) => Partner
  #timer: ReturnType<typeof setInterval> | undefined

  /** `open` makes a partner that is not known. */
  constructor(open: (name: string) => Partner) {
    this.#open = open
  }

  get size(): number {
    return this.#partners.size
  }

  of(name: string): Partner {
    const partner = getOrMake(this.#partners, name, () => this.#open(name))
    this.#timer ??= setInterval(() => this.#forget(), FORGET_EVERY_MS).unref()
    return partner
  }

  #forget(): void {
    for (const [name, partner] of this.#partners) {
      if (!partner.idle) continue
      this.#partners.delete(name)
    }
    if (this.#partners.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
