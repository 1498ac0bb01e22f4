import { asyncDispose } from '../../limiter/core/async-dispose.js'
import type { Clock } from '../../limiter/core/clock.js'
import type { Duration } from '../../limiter/core/duration.js'
import { CostError, StoreError, shown, TimeoutError } from '../../limiter/core/errors.js'
import { WaitWatch, watched } from '../../limiter/core/meters.js'
import { type Observer, parseObserver } from '../../limiter/core/observer.js'
import { checkClock, checkFlag, checkOptions, checkText, type OptionNames } from '../../limiter/core/options.js'
import { type Patience, patienceOf, type WaitOptions } from '../../limiter/core/wait.js'
import { noteObject } from '../../operating/object-index.js'
import type { RedisClient } from '../../redis/client.js'
import { Commands, clockArgument } from '../../redis/commands.js'
import { keyRoot } from '../../redis/keys.js'
import type { Script } from '../../redis/script.js'
import { rateEnd, rateLook, rateRelease, rateSet, rateSweep } from '../../redis/scripts.js'
import { RateLine, unset } from './line.js'
import { parseRate, type RateConfig, RateKeys, type RateOptions, type RateView, spanOf } from './options.js'

/** Options of a `SharedRateLimiter`. */
export interface SharedRateLimiterOptions {
  /** The beginning of every key; default 'spillway'. */
  prefix?: string
  /** Default: the server's TIME. Pass a clock only in tests and simulations. */
  clock?: Clock
  /** The client that is counted separately in the mode 'per-client'. Default: one for each process. */
  clientId?: string
  /** Default: none. Receives `waited` and `level` events for waiters. */
  observer?: Observer
}

const OPTIONS: OptionNames<SharedRateLimiterOptions> = {
  prefix: true,
  clock: true,
  clientId: true,
  observer: true,
}
const SET_OPTIONS = { keepState: true } as const

/**
 * One named rate in Redis, for every process: at most `rate` permits in any `interval`, by the server's clock. The rate
 * is stored there and can be changed at run time. A permit taken at t is free at t + interval. After Redisson's
 * RRateLimiter.
 *
 * To wait, use `acquire`; to drop work, `tryAcquire`. A number of permits that is not an integer ≥ 0, or exceeds the
 * rate, is a `CostError`, and takes nothing; 0 succeeds at once. Without a rate, methods reject with
 * `NotInitializedError`; when Redis fails, with `StoreError`.
 */
export class SharedRateLimiter implements AsyncDisposable {
  readonly #subject: string
  readonly #keys: RateKeys
  readonly #clock: Clock | undefined
  readonly #commands: Commands
  readonly #line: RateLine
  readonly #waits: WaitWatch
  #closed = false
  /** The beginning of its keys. */
  readonly prefix: string

  /** `client` is never closed by this object. Nothing is sent to Redis before the first call. */
  constructor(
    /** The client as given. */
    readonly client: RedisClient,
    /** The name as given. */
    readonly name: string,
    options: SharedRateLimiterOptions = {},
  ) {
    checkOptions('SharedRateLimiter', options, OPTIONS, '{ prefix: "app" }')
    const { prefix = 'spillway', clock, clientId } = options
    const base = keyRoot('SharedRateLimiter', 'rate', name, prefix)
    this.prefix = prefix
    this.#subject = `SharedRateLimiter ${shown(name)}`
    if (clock !== undefined) checkClock(clock, `${this.#subject}: clock`)
    if (clientId !== undefined) checkText(clientId, `${this.#subject}: clientId`, 'worker-1')
    const observer = parseObserver(options.observer, this.#subject)
    this.#waits = new WaitWatch(observer, 'rate', name)
    this.#clock = clock
    this.#keys = new RateKeys(base, clientId)
    this.#commands = new Commands(client, this.#subject, base)
    noteObject(client, 'rate', name, prefix, this)
    this.#line = new RateLine(client, { subject: this.#subject, prefix, keys: this.#keys, now: () => this.#now() })
  }

  /** Sets the rate if none is set: true if it was set. */
  trySetRate(rate: RateOptions): Promise<boolean> {
    return this.#set('absent', false, rate, 'trySetRate')
  }

  /**
   * Sets the rate, replaces any earlier one, and drops what was taken. `keepState` keeps it: a deficit is remembered
   * when the rate falls, and a longer or shorter interval applies to the logged permits, too. The next decision of any
   * process follows the new rate, and so do waiters; one that wants more than the new rate rejects with `CostError`. An
   * end set by `expire` stays.
   */
  async setRate(rate: RateOptions, options: { keepState?: boolean } = {}): Promise<void> {
    await this.#set('always', keepsState(options, 'setRate'), rate, 'setRate')
  }

  /** As `setRate`, if a rate is set; else false, and nothing is written. */
  async updateRate(rate: RateOptions, options: { keepState?: boolean } = {}): Promise<boolean> {
    return this.#set('present', keepsState(options, 'updateRate'), rate, 'updateRate')
  }

  /** The current rate; null if none is set. */
  async getConfig(): Promise<RateConfig | null> {
    return configOf(await this.#look())
  }

  /** What the limiter holds now, by one call of Redis that changes nothing. */
  async inspect(): Promise<RateView> {
    const look = await this.#look()
    const [available = 0, waiting = 0, longestWaitMs = 0] = look.slice(4).map(Number)
    return { config: configOf(look), available, waiting, longestWaitMs }
  }

  /**
   * Takes permits (default 1) now, or resolves to false. With a `timeout` it waits if its turn comes within it;
   * otherwise it resolves to false at once. It never overtakes waiters.
   */
  async tryAcquire(permits = 1, options?: WaitOptions): Promise<boolean> {
    checkPermits(permits, this.#subject)
    const patience = patienceOf(options, 'tryAcquire', 0)
    try {
      await this.#wait(permits, patience)
      return true
    } catch (error) {
      if (error instanceof TimeoutError) return false
      throw error
    }
  }

  /**
   * Waits for permits (default 1), first come, first served across all processes. Rejects with `TimeoutError` when
   * `timeout` is over, or at once if its turn would come after it; with the signal's reason when it is aborted; with
   * `StoreError` when Redis does not answer for five seconds. Then nothing is taken, and the waiters behind move up.
   */
  async acquire(permits = 1, options?: WaitOptions): Promise<void> {
    checkPermits(permits, this.#subject)
    await this.#wait(permits, patienceOf(options, 'acquire', Number.POSITIVE_INFINITY))
  }

  /** Gives permits back: the oldest grants that still count, at most what is taken. Waiters move up. */
  async release(permits: number): Promise<void> {
    checkPermits(permits, this.#subject)
    const args = [this.#now(), this.#keys.clientId, String(permits), this.#line.channel]
    this.#line.flush()
    const [code] = (await this.#commands.once(rateRelease, this.#keys.own, args)) as unknown[]
    this.#commands.forgetWhenQuiet()
    if (Number(code) < 0) throw unset(this.#subject)
  }

  /** The number of permits that are free now; 0 while others wait. */
  async availablePermits(): Promise<number> {
    const available = (await this.#look())[4]
    if (available === undefined) throw unset(this.#subject)
    return Number(available)
  }

  /** Whether a rate is set. */
  async exists(): Promise<boolean> {
    return (await this.#look()).length > 0
  }

  /**
   * Ends the whole limiter, with the state of all clients, after `ttl`, used or not. Waiters whose turn would come
   * later reject with `NotInitializedError`. False if no rate is set.
   */
  async expire(ttl: Duration): Promise<boolean> {
    return this.#end(spanOf(ttl, `${this.#subject}: expire: ttl`))
  }

  /**
   * Deletes the rate and the state of all clients; waiters reject with `NotInitializedError`. False if no rate was set.
   */
  delete(): Promise<boolean> {
    return this.#end(0)
  }

  /**
   * Waiters on this object reject with `StoreError`, and have left the line in Redis when this resolves: at once
   * without a connection to Redis, after at most one second if Redis does not answer. The client stays open.
   */
  async close(): Promise<void> {
    this.#closed = true
    await this.#line.close()
    await this.#commands.close()
  }

  /** As `close`, for `await using`. */
  [asyncDispose](): Promise<void> {
    return this.close()
  }

  async #wait(permits: number, patience: Patience): Promise<void> {
    this.#checkOpen()
    await watched(this.#waits, patience.signal, async () => {
      patience.signal?.throwIfAborted()
      if (permits > 0) await this.#line.wait(permits, patience)
      else if (!(await this.exists())) throw unset(this.#subject)
    })
  }

  async #set(when: string, keep: boolean, options: RateOptions, method: string): Promise<boolean> {
    const { rate, intervalMs, mode, keepAliveMs } = parseRate(options, `${this.#subject}: ${method}`)
    const config = [String(rate), String(intervalMs), mode, String(keepAliveMs ?? -1)]
    return this.#change(rateSet, [], [when, keep ? '1' : '0', ...config])
  }

  async #end(leftMs: number): Promise<boolean> {
    const ended = await this.#change(rateEnd, [this.#line.record], [String(leftMs)])
    this.#line.forget()
    return ended
  }

  /** Changes the rate, then brings all clients up to it: however many they are, no call takes long. */
  async #change(script: Script, more: readonly string[], args: readonly string[]): Promise<boolean> {
    this.#checkOpen()
    const { clientId, own } = this.#keys
    const { channel } = this.#line
    this.#line.flush()
    const change = [this.#now(), ...args, clientId, channel]
    let [changed, ...clients] = (await this.#commands.once(script, [...own, ...more], change)) as [number, ...string[]]
    this.#commands.forgetWhenQuiet()
    while (clients.length > 0) {
      const keys = [...own, ...clients.flatMap(client => this.#keys.of(client))]
      clients = (await this.#commands.run(rateSweep, keys, [this.#now(), channel, ...clients])) as string[]
    }
    return changed === 1
  }

  async #look(): Promise<readonly unknown[]> {
    this.#line.flush()
    return (await this.#commands.run(rateLook, this.#keys.own, [this.#now(), this.#keys.clientId])) as unknown[]
  }

  #now(): string {
    return clockArgument(this.#clock)
  }

  #checkOpen(): void {
    if (this.#closed) throw new StoreError(`${this.#subject} is closed`)
  }
}

/** The configuration in the answer of lua/waiting/rate/rate_look.lua; null if no rate is set. */
function configOf([rate, intervalMs, mode, keepAliveMs]: readonly unknown[]): RateConfig | null {
  if (rate === undefined) return null
  return {
    rate: Number(rate),
    intervalMs: Number(intervalMs),
    mode: mode as RateConfig['mode'],
    keepAliveMs: Number(keepAliveMs) < 0 ? null : Number(keepAliveMs),
  }
}

/** The option `keepState` of a method; throws `PolicyError` for wrong options. */
function keepsState(options: { keepState?: boolean }, method: string): boolean {
  checkOptions(method, options, SET_OPTIONS, '{ keepState: true }')
  const { keepState = false } = options
  checkFlag(keepState, `${method}: keepState`)
  return keepState
}

function checkPermits(permits: number, subject: string): void {
  if (Number.isSafeInteger(permits) && permits >= 0) return
  throw new CostError(`${subject}: permits ${shown(permits)}: expected an integer ≥ 0, like 1`)
}
