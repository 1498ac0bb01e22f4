import { randomBytes } from 'node:crypto'
import type { Clock } from '../core/clock.js'
import type { Duration } from '../core/duration.js'
import { CostError, PolicyError, StoreError, shown, TimeoutError } from '../core/errors.js'
import { checkOptions, type OptionNames } from '../core/option-names.js'
import type { RedisClient } from '../redis/client.js'
import { Commands } from '../redis/commands.js'
import { keyRoot } from '../redis/key-root.js'
import { keySegment } from '../redis/keys.js'
import type { Script } from '../redis/script.js'
import { rateAcquire, rateEnd, rateLook, rateRelease, rateSet } from '../redis/scripts.js'
import { TurnBatch } from '../redis/turn-batch.js'
import { patienceOf, type WaitOptions } from '../waiting/wait.js'
import { type Booked, type Booking, type Standing, unset } from './answer.js'
import { RateKeys } from './keys.js'
import { RateLine } from './line.js'
import { parseRate, type RateConfig, type RateOptions, spanOf } from './options.js'

export interface SharedRateLimiterOptions {
  /** What every key begins with; default 'spillway'. */
  prefix?: string
  /** Default: the server's TIME. A clock given here is for tests and simulation. */
  clock?: Clock
  /** Who counts apart in the mode 'per-client'. Default: one for each process. */
  clientId?: string
}

const OPTIONS: OptionNames<SharedRateLimiterOptions> = { prefix: true, clock: true, clientId: true }
const SET_OPTIONS = { keepState: true } as const

const PROCESS = randomBytes(9).toString('base64url')

/** Clients may come while a rate is being set; that they come each time is a sign that something else is wrong. */
const MOST_ATTEMPTS = 20

/** How many bookings one call gives back. */
const MOST_CANCELS = 500

interface Cancel extends Booking {
  readonly done: () => void
}

/**
 * One named rate in Redis, for every process: at most `rate` permits in any `interval`, by the server's clock. The rate is stored
 * there and can be changed at run time. A permit taken at t is free at t + interval. After Redisson's RRateLimiter.
 *
 * To wait, use `acquire`; to drop work, `tryAcquire`. A number of permits that is no integer ≥ 0, or more than the rate, is a
 * `CostError`, and takes nothing; 0 succeeds at once. Without a rate: `NotInitializedError`. What Redis fails to do: `StoreError`.
 */
export class SharedRateLimiter {
  readonly #subject: string
  readonly #keys: RateKeys
  readonly #channel: string
  readonly #clock: Clock | undefined
  readonly #commands: Commands
  readonly #line: RateLine
  /** Bookings that are given back. Each call plans anew all who wait behind, so one call gives back many; it goes before any other. */
  readonly #cancels = new TurnBatch<Cancel>(
    () => true,
    MOST_CANCELS,
    async cancels => {
      await this.#giveBack(0, cancels).catch(() => {})
      for (const { done } of cancels) done()
    },
  )
  #closed = false

  /** `client` stays yours: this never closes it. Nothing is asked of Redis before the first call. */
  constructor(client: RedisClient, name: string, options: SharedRateLimiterOptions = {}) {
    checkOptions('SharedRateLimiter', options, OPTIONS, '{ prefix: "app" }')
    const { prefix = 'spillway', clock, clientId = PROCESS } = options
    const base = keyRoot('SharedRateLimiter', 'rate', name, prefix)
    this.#subject = `SharedRateLimiter ${shown(name)}`
    if (clock !== undefined && typeof clock?.now !== 'function') {
      throw new PolicyError(
        `${this.#subject}: clock ${shown(clock)}: expected an object with now(), like new ManualClock()`,
      )
    }
    if (typeof clientId !== 'string' || clientId === '') {
      throw new PolicyError(
        `${this.#subject}: clientId ${shown(clientId)}: expected a text that is not empty, like "worker-1"`,
      )
    }
    this.#clock = clock
    this.#keys = new RateKeys(base, clientId)
    this.#channel = `${keySegment(prefix)}!turns:`
    this.#commands = new Commands(client, this.#subject, base)
    this.#line = new RateLine(client, this.#channel, {
      subject: this.#subject,
      book: (id, permits, maxWaitMs, late) => this.#book(id, permits, maxWaitMs, late),
      cancel: booking => new Promise<void>(done => this.#cancels.add({ ...booking, done })),
      look: ids => this.#standing(ids),
    })
  }

  /** Sets the rate if none is set: true if it was set. */
  trySetRate(rate: RateOptions): Promise<boolean> {
    return this.#set('absent', false, rate, 'trySetRate')
  }

  /**
   * Sets the rate, whatever was set, and forgets what was taken; `keepState` keeps it: a deficit is remembered when the rate falls,
   * a longer or shorter interval judges anew what is still logged. The next decision of any process follows the new rate, and
   * those who wait are planned anew; one that wants more than the new rate rejects with `CostError`. An end set by `expire` stays.
   */
  async setRate(rate: RateOptions, options: { keepState?: boolean } = {}): Promise<void> {
    checkOptions('setRate', options, SET_OPTIONS, '{ keepState: true }')
    await this.#set('always', options.keepState === true, rate, 'setRate')
  }

  /** As `setRate`, if a rate is set; else false, and nothing is written. */
  async updateRate(rate: RateOptions, options: { keepState?: boolean } = {}): Promise<boolean> {
    checkOptions('updateRate', options, SET_OPTIONS, '{ keepState: true }')
    return this.#set('present', options.keepState === true, rate, 'updateRate')
  }

  /** The rate as it is set; null where none is. */
  async getConfig(): Promise<RateConfig | null> {
    const [rate, intervalMs, mode, keepAliveMs] = await this.#look([])
    if (rate === undefined) return null
    return {
      rate: Number(rate),
      intervalMs: Number(intervalMs),
      mode: mode as RateConfig['mode'],
      keepAliveMs: Number(keepAliveMs) < 0 ? null : Number(keepAliveMs),
    }
  }

  /**
   * Takes permits (default 1) now, or not at all: false. With a `timeout` it waits, if its turn comes within it; if not, it is false
   * at once. It never overtakes those who wait.
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
   * Waits for permits (default 1), first come, first served across all processes: one question to Redis, one timer. Rejects with
   * `TimeoutError` when `timeout` is over, or at once if its turn would come after it, and with the signal's reason when it is
   * aborted; then nothing is taken, and those behind move up.
   */
  async acquire(permits = 1, options?: WaitOptions): Promise<void> {
    checkPermits(permits, this.#subject)
    await this.#wait(permits, patienceOf(options, 'acquire', Number.POSITIVE_INFINITY))
  }

  /** Gives permits back, the newest grants first, at most what is out. Those who wait move up. */
  async release(permits: number): Promise<void> {
    checkPermits(permits, this.#subject)
    await this.#giveBack(permits)
  }

  /** How many permits are free now: 0 while somebody waits. */
  async availablePermits(): Promise<number> {
    const available = (await this.#look([]))[4]
    if (available === undefined) throw unset(this.#subject)
    return Number(available)
  }

  /** Whether a rate is set. */
  async exists(): Promise<boolean> {
    return (await this.#look([])).length > 0
  }

  /**
   * Ends the whole limiter, the state of all clients included, after `ttl`, used or not. Those whose turn would come later reject
   * with `NotInitializedError`. False if no rate is set.
   */
  async expire(ttl: Duration): Promise<boolean> {
    return this.#end(spanOf(ttl, `${this.#subject}: expire: ttl`))
  }

  /** Deletes the rate and the state of all clients; those who wait reject with `NotInitializedError`. False if no rate was set. */
  delete(): Promise<boolean> {
    return this.#end(0)
  }

  /** Those who wait on this object reject with `StoreError`, and their turns are given back. The client stays open. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#line.close()
    await this.#commands.close()
  }

  async #wait(permits: number, patience: { timeoutMs: number; signal: AbortSignal | undefined }): Promise<void> {
    this.#checkOpen()
    patience.signal?.throwIfAborted()
    await this.#line.wait(permits, patience)
  }

  async #book(id: string, permits: number, maxWaitMs: number, late: (booked: Booked) => void): Promise<Booked> {
    const patience = maxWaitMs === Number.POSITIVE_INFINITY ? '-1' : String(Math.floor(maxWaitMs))
    const args = [this.#now(), this.#keys.clientId, String(permits), patience, id]
    this.#cancels.flush()
    const ask = this.#commands.once(rateAcquire, this.#keys.own, args, answer => late(booked(answer)))
    return booked(await ask)
  }

  async #giveBack(permits: number, cancels: readonly Booking[] = []): Promise<void> {
    const given = cancels.flatMap(({ id, permits, epoch }) => [id, String(permits), String(epoch)])
    const args = [this.#now(), this.#keys.clientId, String(permits), this.#channel, ...given]
    this.#cancels.flush()
    const [code] = (await this.#commands.once(rateRelease, this.#keys.own, args)) as unknown[]
    this.#commands.forgetSoon()
    if (Number(code) < 0) throw unset(this.#subject)
  }

  async #set(when: string, keep: boolean, options: RateOptions, method: string): Promise<boolean> {
    const { rate, intervalMs, mode, keepAliveMs } = parseRate(options, `${this.#subject}: ${method}`)
    const config = [String(rate), String(intervalMs), mode, String(keepAliveMs ?? -1)]
    return this.#withAllClients(rateSet, [when, keep ? '1' : '0', ...config, this.#channel])
  }

  #end(leftMs: number): Promise<boolean> {
    return this.#withAllClients(rateEnd, [String(leftMs), this.#channel])
  }

  /** Runs a script on the state of all clients, whose names are learnt from its own answers. */
  async #withAllClients(script: Script, args: readonly string[]): Promise<boolean> {
    this.#checkOpen()
    const others = new Set<string>()
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      const keys = [...this.#keys.own, ...[...others].flatMap(client => this.#keys.of(client))]
      const clients = [this.#keys.clientId, ...others]
      this.#cancels.flush()
      const answer = await this.#commands.once(script, keys, [this.#now(), ...args, ...clients])
      const [first, ...rest] = answer as unknown[]
      if (typeof first === 'number') {
        this.#commands.forgetSoon()
        return first === 1
      }
      for (const client of [first, ...rest]) others.add(String(client))
    }
    throw new StoreError(`${this.#subject}: new clients came faster than they could be told`)
  }

  async #look(ids: readonly string[]): Promise<readonly unknown[]> {
    this.#cancels.flush()
    return (await this.#commands.run(rateLook, this.#keys.own, [this.#now(), ...ids])) as unknown[]
  }

  /** How the line stands; undefined where no rate is set. */
  async #standing(ids: readonly string[]): Promise<Standing | undefined> {
    const answer = await this.#look(ids)
    if (answer.length === 0) return undefined
    return { rate: Number(answer[0]), epoch: Number(answer[5]), waits: answer.slice(6).map(Number) }
  }

  #now(): string {
    return this.#clock === undefined ? '' : String(Math.floor(this.#clock.now()))
  }

  #checkOpen(): void {
    if (this.#closed) throw new StoreError(`${this.#subject} is closed`)
  }
}

function checkPermits(permits: number, subject: string): void {
  if (Number.isSafeInteger(permits) && permits >= 0) return
  throw new CostError(`${subject}: permits ${shown(permits)}: expected an integer ≥ 0, like 1`)
}

function booked(answer: unknown): Booked {
  const [waitMs, rate, epoch] = (answer as unknown[]).map(Number)
  return { waitMs, rate, epoch }
}
