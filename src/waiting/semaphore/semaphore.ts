import { asyncDispose } from '../../limiter/core/async-dispose.js'
import type { Clock } from '../../limiter/core/clock.js'
import { type Duration, parseStoredOption } from '../../limiter/core/duration.js'
import { CostError, PolicyError, StoreError, shown, TimeoutError } from '../../limiter/core/errors.js'
import { type InspectOptions, parseInspectOptions } from '../../limiter/core/listed.js'
import { HoldWatch, watched } from '../../limiter/core/meters.js'
import { type Observer, parseObserver } from '../../limiter/core/observer.js'
import { checkClock, checkFunction, checkOptions, type OptionNames } from '../../limiter/core/options.js'
import { type Patience, patienceOf, WAIT_OPTIONS, type WaitOptions } from '../../limiter/core/wait.js'
import { noteObject } from '../../operating/object-index.js'
import type { RedisClient } from '../../redis/client.js'
import { portOf } from '../../redis/clients.js'
import { keyRoot } from '../../redis/keys.js'
import { Mailbox } from '../line/mailbox.js'
import {
  checkId,
  checkTotal,
  type Grant,
  type LeaseInfo,
  leaseOf,
  SemaphoreCommands,
  type SemaphoreView,
} from './commands.js'
import { HeldLease, type Lease } from './lease.js'
import { leaseFacts } from './lease-name.js'
import { SemaphoreLine } from './line.js'
import { Renewals } from './renewals.js'

/** Options of a `Semaphore`. */
export interface SemaphoreOptions {
  /**
   * The number of permits, if none is set: set with the first command that takes or changes permits. Integer ≥ 0.
   * Default: none, so that `trySetPermits` sets it.
   */
  permits?: number
  /**
   * Default false. True: `permits` applies to every call of this object, regardless of the number in Redis: for a
   * number that all processes have in their code.
   */
  fixed?: boolean
  /** The beginning of its keys. Default 'spillway'. */
  prefix?: string
  /** Default: the server's TIME. Pass a clock only in tests and simulations. */
  clock?: Clock
  /**
   * Its keys expire after this time without leases and calls, at most a minute later; at most ten years. Undefined: the
   * number of permits is kept for ever.
   */
  idleTtl?: Duration
  /** Default: none. Receives `waited`, `held` and `level` events for waiters and held permits. */
  observer?: Observer
}

/** Options of `acquire`, `tryAcquire` and `use`. */
export interface AcquireOptions extends WaitOptions {
  /** Default 1; integer ≥ 1 and at most the number of permits, else `CostError`. */
  permits?: number
  /** Default '30s'; at most ten years. How long the permits stay taken without an extension. */
  lease?: Duration
  /** Default true: the lease is extended, whenever a third of its length has passed, while the process lives. */
  renew?: boolean
}

const SEMAPHORE_OPTIONS: OptionNames<SemaphoreOptions> = {
  permits: true,
  fixed: true,
  prefix: true,
  clock: true,
  idleTtl: true,
  observer: true,
}
const RESUME_OPTIONS = { lease: true, renew: true } as const
const ACQUIRE_OPTIONS: OptionNames<AcquireOptions> = { ...WAIT_OPTIONS, ...RESUME_OPTIONS, permits: true }

/**
 * Limits how many holders work at once, over all processes. Before permits are set, everything but `trySetPermits`,
 * `setPermits` and `delete` rejects with `NotInitializedError`; when Redis fails, with `StoreError`.
 */
export class Semaphore implements AsyncDisposable {
  readonly #subject: string
  readonly #commands: SemaphoreCommands
  readonly #mailbox: Mailbox
  readonly #line: SemaphoreLine
  readonly #renewals: Renewals
  readonly #watch: HoldWatch
  readonly #leases = new Set<HeldLease>()
  #closed: StoreError | undefined

  /** Objects with the same name, prefix and Redis are one semaphore. Sends nothing. Throws `PolicyError`. */
  constructor(client: RedisClient, name: string, options: SemaphoreOptions = {}) {
    checkOptions('Semaphore', options, SEMAPHORE_OPTIONS, '{ permits: 5 }')
    const { permits, fixed = false, prefix = 'spillway', clock, idleTtl } = options
    const base = keyRoot('Semaphore', 'semaphore', name, prefix)
    this.#subject = `Semaphore ${shown(name)}`
    if (permits !== undefined) checkTotal(permits, 'Semaphore: permits')
    if (fixed !== false && (fixed !== true || permits === undefined)) {
      throw new PolicyError(`Semaphore: fixed ${shown(fixed)}: expected true together with permits, or false`)
    }
    if (clock !== undefined) checkClock(clock, 'Semaphore: clock')
    const idleMs = idleTtl === undefined ? undefined : parseStoredOption(idleTtl, 'Semaphore: idleTtl', '10s')
    if (idleMs === undefined) noteObject(client, 'semaphore', name, prefix, this)
    const observer = parseObserver(options.observer, 'Semaphore')
    this.#watch = new HoldWatch(observer, 'semaphore', name)
    this.#renewals = Renewals.of(portOf(client, 'Semaphore'))
    this.#mailbox = new Mailbox(client, prefix, {
      hear: text => this.#hear(text),
      live: () => this.#look(),
    })
    this.#commands = new SemaphoreCommands(client, {
      subject: this.#subject,
      base,
      channel: this.#mailbox.channel,
      permits,
      fixed,
      idleMs,
      clock,
    })
    this.#line = new SemaphoreLine(this.#commands, portOf(client, 'Semaphore'), this.#mailbox)
  }

  /** Sets the number of permits, if it was never set. Integer ≥ 0, else `PolicyError`. True if it was set now. */
  async trySetPermits(permits: number): Promise<boolean> {
    checkTotal(permits, 'trySetPermits')
    return (await this.#inOrder().set('try', permits)).done
  }

  /**
   * Sets the number of permits. Integer ≥ 0, else `PolicyError`. Holders keep their permits; nothing is granted until
   * enough have come back. Waiters for more permits than the new number reject with `CostError`.
   */
  async setPermits(permits: number): Promise<void> {
    checkTotal(permits, 'setPermits')
    await this.#inOrder().set('set', permits)
  }

  /** Adds `delta` permits, or removes them, but never below 0. Resolves to the new number. */
  async addPermits(delta: number): Promise<number> {
    if (!Number.isSafeInteger(delta)) {
      throw new PolicyError(`addPermits: given ${shown(delta)}, expected an integer, like 2 or -2`)
    }
    return (await this.#inOrder().set('add', delta)).permits
  }

  /** The number of permits, held or not. */
  async permits(): Promise<number> {
    return (await this.#inOrder().look()).permits
  }

  /** The number of permits not held, also while waiters need more; below 0 if more are held than exist. */
  async availablePermits(): Promise<number> {
    return (await this.#inOrder().look()).available
  }

  /**
   * All held leases, those that end first at the beginning. The cost grows with their number: `inspect` lists some.
   */
  async holders(): Promise<LeaseInfo[]> {
    return [...(await this.#inOrder().look(-1)).holders.items]
  }

  /**
   * The number of waiters in all processes. Waiters of a dead process are counted until a waiter behind them asks, or
   * for at most six seconds if there is none.
   */
  async waiting(): Promise<number> {
    return (await this.#inOrder().look()).waiting
  }

  /**
   * What the semaphore holds now, by one call of Redis that changes nothing. Throws `PolicyError` for invalid options.
   *
   * @example
   * const { available, waiting, holders } = await semaphore.inspect({ limit: 20 })
   */
  async inspect(options: InspectOptions = {}): Promise<SemaphoreView> {
    return this.#inOrder().look(parseInspectOptions(options, `${this.#subject}: inspect`))
  }

  /**
   * As `acquire`, but null if permits are not free within the timeout, by default at once. It does not overtake
   * waiters: while others wait, no permit is free.
   */
  async tryAcquire(options: AcquireOptions = {}): Promise<Lease | null> {
    try {
      return await this.#take(options, patienceOf(options, 'tryAcquire', 0, ACQUIRE_OPTIONS), 'tryAcquire')
    } catch (error) {
      if (error instanceof TimeoutError) return null
      throw error
    }
  }

  /**
   * Takes permits, all or none; waits for them, first come, first served across all processes. Rejects with
   * `TimeoutError`, with the signal's reason, with `CostError` at once if the semaphore has fewer permits, or with
   * `StoreError` when Redis does not answer for five seconds. A holder that waits for more permits may wait for ever:
   * take all at once.
   */
  acquire(options: AcquireOptions = {}): Promise<Lease> {
    try {
      const patience = patienceOf(options, 'acquire', Number.POSITIVE_INFINITY, ACQUIRE_OPTIONS)
      return this.#take(options, patience, 'acquire')
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /**
   * Runs `work` while holding permits, and gives them back however it ends. Work that must stop when the lease is lost
   * should watch `lease.signal`.
   */
  async use<R>(work: (lease: Lease) => Promise<R>, options: AcquireOptions = {}): Promise<R> {
    checkFunction(work, `${this.#subject}: use: work`, 'async lease => { … }')
    const lease = await this.acquire(options)
    try {
      return await work(lease)
    } finally {
      await lease[Symbol.asyncDispose]()
    }
  }

  /**
   * Takes over a lease by its id, in this process or another: the same permits with a new id and fencing token. The
   * previous holder loses it. `lease` (default '30s', at most ten years) is its length from now on. null if it has
   * ended.
   */
  async resume(id: string, options: { lease?: Duration; renew?: boolean } = {}): Promise<Lease | null> {
    checkOptions('resume', options, RESUME_OPTIONS, "{ lease: '30s' }")
    const leaseMs = leaseOf(options, 'resume')
    this.#checkOpen()
    const grant = await this.#inOrder().resume(checkId(id, 'resume'), leaseMs, this.#mailbox.address)
    return grant && this.#leaseFor(grant, leaseFacts(grant.id).permits, leaseMs, options.renew !== false)
  }

  /** Ends a lease, regardless of its holder. False if there is no lease with this id. */
  async forceRelease(id: string): Promise<boolean> {
    return this.#inOrder().force(checkId(id, 'forceRelease'))
  }

  /**
   * Deletes the semaphore with all leases: they are lost, and waiters reject with `NotInitializedError`. False if there
   * was none.
   */
  async delete(): Promise<boolean> {
    return this.#inOrder().delete()
  }

  /**
   * Waiters on this object reject, and have left the line in Redis when this resolves: after at most 1 s, at once
   * without a connection. Leases are no longer extended, but last until their deadline and can still be released. The
   * client stays open.
   */
  async close(): Promise<void> {
    this.#closed ??= new StoreError(`${this.#subject} was closed`)
    for (const lease of this.#leases) lease.detach()
    await this.#line.close(this.#closed)
  }

  /** As `close`, for `await using`. */
  [asyncDispose](): Promise<void> {
    return this.close()
  }

  /**
   * Throws for invalid options. Not async, and the lease is created where the answer is read, because promises are a
   * large part of a lease's cost.
   */
  #take(options: AcquireOptions, patience: Patience, method: string): Promise<Lease> {
    const { permits = 1, renew = true } = options
    if (!Number.isSafeInteger(permits) || permits < 1) {
      throw new CostError(`${method}: permits ${shown(permits)}: expected an integer ≥ 1, like 1`)
    }
    const leaseMs = leaseOf(options, method)
    this.#checkOpen()
    return watched(this.#watch, patience.signal, granted => {
      const leaseFor = (grant: Grant) => {
        granted()
        return this.#leaseFor(grant, permits, leaseMs, renew)
      }
      return this.#line.take(permits, leaseMs, patience, leaseFor)
    })
  }

  #leaseFor(grant: Grant, permits: number, leaseMs: number, renews: boolean): Lease {
    const tellEnd = this.#watch.hold(permits, grant)
    const ended = () => {
      tellEnd?.(lease.lost)
      this.#leases.delete(lease)
    }
    const renewing = renews && this.#closed === undefined
    const lease = new HeldLease(this.#line, this.#renewals, grant, permits, leaseMs, renewing, ended)
    this.#leases.add(lease)
    return lease
  }

  #hear(text: string): void {
    if (text.endsWith('?')) this.#renewals.look(this.#line)
    else this.#line.hear()
  }

  /** Messages may have been lost. */
  #look(): void {
    this.#line.hear()
    if (this.#leases.size > 0) this.#renewals.look(this.#line)
  }

  /** The commands, after earlier calls were sent: none of them is overtaken. */
  #inOrder(): SemaphoreCommands {
    this.#line.flush()
    return this.#commands
  }

  #checkOpen(): void {
    if (this.#closed) throw this.#closed
  }
}
