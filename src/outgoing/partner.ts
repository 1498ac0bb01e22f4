import { formatDuration } from '../core/duration.js'
import { shown, TimeoutError } from '../core/errors.js'
import { getOrMake } from '../core/maps.js'
import type { Observer } from '../core/observer.js'
import { emitWarning } from '../core/warnings.js'
import { type Place, type Places, ProcessPlaces } from '../http/concurrency/process-places.js'
import { SharedPlaces } from '../http/concurrency/shared-places.js'
import type { Guarded } from '../limiter/guarded.js'
import { OutageAborter } from '../limiter/guarded-redis.js'
import type { RedisClient } from '../redis/client.js'
import { HoldWatch, WaitWatch, watched } from '../waiting/reports.js'
import type { Patience } from '../waiting/wait.js'
import { type CheckedLimits, NO_LIMITS } from './options.js'
import { Pause, RedisPause } from './pause.js'
import { ProcessRate, type Rate, tooLong, type Unit } from './rate.js'
import { RedisRate } from './redis-rate.js'

/** A place of a dead process is free after this time. */
const LEASE_MS = 30_000
/** A wait is extended at random by at most this share of it, or this many ms, whichever is more, so that waiting calls do not all leave at one moment. */
const JITTER_SHARE = 0.2
const JITTER_MS = 250

/** The right to send one call now. */
interface Pass {
  /** The header fields of the answer have arrived, or the call has failed. */
  end(): void
}

interface PartnerOptions {
  readonly name: string
  readonly limits: CheckedLimits | undefined
  /** Absent: this process alone. */
  readonly redis: { readonly client: RedisClient; readonly guarded: Guarded } | undefined
  readonly observer: Observer | undefined
}

/** One partner: when calls to it may leave. */
export class Partner {
  readonly name: string
  readonly #pause: Pause
  readonly #rate: Rate | undefined
  readonly #places: Places | undefined
  readonly #rateWaits: WaitWatch | undefined
  readonly #holds: HoldWatch | undefined
  readonly #longestPauseMs: number
  /** Until when no further warning of a cut pause is given, by `performance.now()`. */
  #warnedUntil = Number.NEGATIVE_INFINITY
  #calls = 0

  constructor({ name, limits = NO_LIMITS, redis, observer }: PartnerOptions) {
    this.name = name
    const { rate, concurrency: permits, longestPauseMs } = limits
    this.#longestPauseMs = longestPauseMs
    if (observer !== undefined) {
      this.#rateWaits = rate && new WaitWatch(observer, 'rate', name)
      this.#holds = Number.isFinite(permits) ? new HoldWatch(observer, 'semaphore', name) : undefined
    }
    if (redis === undefined) {
      this.#pause = new Pause()
      this.#rate = rate && new ProcessRate(rate, name)
      this.#places = Number.isFinite(permits) ? new ProcessPlaces(permits) : undefined
      return
    }
    const pause = new RedisPause({ ...redis, partner: name, longestMs: longestPauseMs })
    const waits = new OutageAborter(() => pause.answers())
    const places = { ...redis, prefix: 'spillway', name: 'outgoing', permits, leaseMs: LEASE_MS }
    this.#pause = pause
    this.#rate = rate && new RedisRate({ ...redis, partner: name, limit: rate, waits })
    this.#places = Number.isFinite(permits) ? new SharedPlaces(places) : undefined
  }

  /** True if this process knows the partner's own limits. */
  get isLimited(): boolean {
    return this.#rate !== undefined
  }

  /** True if there is nothing to wait for and no call is under way. */
  get idle(): boolean {
    return this.#calls === 0 && this.#pause.leftMs === 0 && this.#rate?.idle !== false
  }

  /** The partner has asked for a pause. A longer one than `longestPause` is cut. */
  pause(ms: number): void {
    const longestMs = this.#longestPauseMs
    if (ms > longestMs) this.#warn(ms)
    this.#pause.begin(Math.min(ms, longestMs))
  }

  /** Ends the pause, in all processes. Rejects with `StoreError` if Redis fails. */
  async resume(): Promise<void> {
    this.#warnedUntil = Number.NEGATIVE_INFINITY
    await this.#pause.resume()
  }

  /** Waits until a call may leave. `retries`: the call was refused before. Rejects with `TimeoutError` at once if the wait is longer than `maxWaitMs`. */
  async enter(maxWaitMs: number, signal: AbortSignal | undefined, retries: boolean): Promise<Pass> {
    const endsAt = performance.now() + maxWaitMs
    const left = (): Patience => ({ timeoutMs: Math.max(0, Math.ceil(endsAt - performance.now())), signal })
    this.#calls++
    try {
      for (let again = retries; ; again = false) {
        signal?.throwIfAborted()
        await this.#waitForPause(left(), again)
        const place = await this.#place(left())
        const unit = await this.#unit(left(), place)
        // Meanwhile the partner may have asked for a pause, or the caller may have gone.
        await this.#pause.look()
        if (this.#pause.leftMs === 0 && !signal?.aborted) return this.#passOf(place, unit)
        unit?.unused()
        place?.leave()
      }
    } catch (error) {
      this.#calls--
      throw error
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#rate?.close(), this.#places?.close()])
  }

  async #waitForPause({ timeoutMs, signal }: Patience, again: boolean): Promise<void> {
    await this.#pause.look()
    const pauseMs = this.#pause.leftMs
    if (pauseMs > timeoutMs) throw tooLong(this.name, pauseMs)
    if (pauseMs === 0 && !again) return
    const jitterMs = Math.random() * Math.max(JITTER_SHARE * pauseMs, JITTER_MS)
    await this.#pause.sleep(Math.min(timeoutMs, pauseMs + jitterMs), signal)
  }

  /** Once for each pause, although several answers may ask for it. */
  #warn(askedMs: number): void {
    const now = performance.now()
    if (now < this.#warnedUntil) return
    this.#warnedUntil = now + this.#longestPauseMs
    emitWarning(
      'SPILLWAY_PAUSE',
      `politeFetch: ${this.name} asked for a pause of ${formatDuration(askedMs)}, which is cut to ${formatDuration(this.#longestPauseMs)} ` +
        `(longestPause). resume(${shown(this.name)}) ends it earlier.`,
    )
  }

  async #place({ timeoutMs, signal }: Patience): Promise<Place | undefined> {
    if (this.#places === undefined) return undefined
    const places = this.#places
    const place = await watched(this.#holds, signal, async () => {
      const place = await places.wait(this.name, timeoutMs, signal ?? new AbortController().signal)
      if (place === null) throw new TimeoutError(`politeFetch: ${this.name}: no place was free within maxWait`)
      return place
    })
    const released = this.#holds?.hold(1, place.lease)
    return {
      leave: () => {
        released?.(false)
        return place.leave()
      },
    }
  }

  async #unit(patience: Patience, place: Place | undefined): Promise<Unit | undefined> {
    if (this.#rate === undefined) return undefined
    const rate = this.#rate
    try {
      return await watched(this.#rateWaits, patience.signal, () => rate.take(patience))
    } catch (error) {
      place?.leave()
      throw error
    }
  }

  #passOf(place: Place | undefined, unit: Unit | undefined): Pass {
    return {
      end: () => {
        this.#calls--
        unit?.answered()
        place?.leave()
      },
    }
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
      void partner.close()
    }
    if (this.#partners.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
