import type { Clock } from '../core/clock.js'
import { type Duration, parseOption } from '../core/duration.js'
import { CostError, PolicyError, SpillwayError, shown, TimeoutError } from '../core/errors.js'
import { type Observer, parseObserver } from '../core/observer.js'
import { checkOptions, type OptionNames } from '../core/option-names.js'
import type { RedisClient } from '../redis/client.js'
import { keyRoot } from '../redis/key-root.js'
import { noteObject } from '../redis/object-index.js'
import { portOf } from '../redis/port-of.js'
import { Mailbox } from '../waiting/mailbox.js'
import { type Patience, patienceOf, WAIT_OPTIONS, type WaitOptions } from '../waiting/wait.js'
import { HoldWatch, watched } from '../waiting/wait-watch.js'
import { type Grant, SemaphoreCommands } from './commands.js'
import { HeldLease, type Lease } from './lease.js'
import { SemaphoreLine } from './line.js'
import { checkId, checkTotal, leaseOf } from './options.js'
import { Renewals } from './renewals.js'

/** Options of a `Semaphore`. */
export interface SemaphoreOptions {
  /** Set where none are, at the first command. Integer ≥ 0. */
  permits?: number
  /** Default false. True: `permits` holds for all this object asks, whatever was set: for a number that stands in everyone's code. */
  fixed?: boolean
  /** What its keys begin with. Default 'spillway'. */
  prefix?: string
  /** Default: the server's TIME. A clock given here is for tests and simulation. */
  clock?: Clock
  /** Its keys are gone when nothing was held and nobody asked for so long. Absent: the number of permits is kept for ever. */
  idleTtl?: Duration
  /** Is told who waits and who holds permits: `waited`, `held` and `level`. */
  observer?: Observer
}

/** Options of `acquire`, `tryAcquire` and `use`. */
export interface AcquireOptions extends WaitOptions {
  /** Default 1; integer ≥ 1 and at most the semaphore's, else `CostError`. */
  permits?: number
  /** Default '30s'. How long the permits are ours if nothing is heard of us. */
  lease?: Duration
  /** Default true: the lease is extended, at a third of its length, while the process lives. */
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

/** A lease that is held, as `holders` tells it. */
export interface LeaseInfo {
  /** Takes the lease over, with `resume`. */
  readonly id: string
  /** How many permits it holds. */
  readonly permits: number
  /** ms since the epoch, by the server's clock. */
  readonly expiresAt: number
}

/**
 * How many may do something at once, over all processes. Without permits set everything but `trySetPermits`, `setPermits` and `delete`
 * rejects with `NotInitializedError`; when Redis fails, with `StoreError`.
 */
export class Semaphore {
  readonly #subject: string
  readonly #commands: SemaphoreCommands
  readonly #mailbox: Mailbox
  readonly #line: SemaphoreLine
  readonly #renewals: Renewals
  readonly #watch: HoldWatch | undefined
  readonly #leases = new Set<HeldLease>()
  #closed: SpillwayError | undefined

  /** Objects of one name, one prefix and one Redis are one semaphore. Sends nothing. Throws `PolicyError`. */
  constructor(client: RedisClient, name: string, options: SemaphoreOptions = {}) {
    checkOptions('Semaphore', options, SEMAPHORE_OPTIONS, '{ permits: 5 }')
    const { permits, fixed = false, prefix = 'spillway', clock, idleTtl } = options
    const base = keyRoot('Semaphore', 'semaphore', name, prefix)
    this.#subject = `Semaphore ${shown(name)}`
    if (permits !== undefined) checkTotal(permits, 'Semaphore: permits')
    if (fixed !== false && (fixed !== true || permits === undefined)) {
      throw new PolicyError(`Semaphore: fixed ${shown(fixed)}: expected true together with permits, or false`)
    }
    if (clock !== undefined && typeof clock?.now !== 'function') {
      throw new PolicyError(`Semaphore: clock ${shown(clock)}: expected an object with now(), like new ManualClock()`)
    }
    const idleMs = idleTtl === undefined ? undefined : parseOption(idleTtl, 'Semaphore: idleTtl')
    if (idleMs === undefined) noteObject(client, 'semaphore', name, prefix, this)
    const observer = parseObserver(options.observer, 'Semaphore')
    this.#watch = observer && new HoldWatch(observer, 'semaphore', name)
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

  /** Sets how many permits there are, if that was never set. Integer ≥ 0, else `PolicyError`. True if it did. */
  async trySetPermits(permits: number): Promise<boolean> {
    checkTotal(permits, 'trySetPermits')
    return (await this.#asked.set('try', permits)).done
  }

  /**
   * Sets how many permits there are. Integer ≥ 0, else `PolicyError`. Who holds some keeps them; nothing is granted until enough have
   * come back. Those who wait for more than there are now reject with `CostError`.
   */
  async setPermits(permits: number): Promise<void> {
    checkTotal(permits, 'setPermits')
    await this.#asked.set('set', permits)
  }

  /** So many more, or fewer, but never below 0. Gives how many there are then. */
  async addPermits(delta: number): Promise<number> {
    if (!Number.isSafeInteger(delta)) {
      throw new PolicyError(`addPermits: given ${shown(delta)}, expected an integer, like 2 or -2`)
    }
    return (await this.#asked.set('add', delta)).permits
  }

  /** How many there are, held or not. */
  async permits(): Promise<number> {
    const [permits] = await this.#asked.look()
    return Number(permits)
  }

  /** How many are not held, also while somebody waits for more; below 0 when there are fewer than are held. */
  async availablePermits(): Promise<number> {
    const [permits, used] = await this.#asked.look()
    return Number(permits) - Number(used)
  }

  /** Who holds permits, those first whose leases end first. Costs as much as there are; for people who look. */
  async holders(): Promise<LeaseInfo[]> {
    const [, , , ...leases] = await this.#asked.look(true)
    const holders: LeaseInfo[] = []
    for (let i = 0; i < leases.length; i += 3) {
      const [id, expiresAt, permits] = leases.slice(i, i + 3)
      holders.push({ id: String(id), permits: Number(permits), expiresAt: Number(expiresAt) })
    }
    return holders
  }

  /**
   * How many wait, in all processes. Waiters of a process that has died are counted until somebody behind them asks, or for at most six
   * seconds if nobody is.
   */
  async waiting(): Promise<number> {
    const [, , waiting] = await this.#asked.look()
    return Number(waiting)
  }

  /**
   * As `acquire`, but null if permits are not free within the timeout, by default at once. It does not overtake those who wait: where
   * somebody waits, nothing is free.
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
   * Takes permits, all or none; waits, first come, first served across all processes, until they are free. Rejects with `TimeoutError`,
   * with the signal's reason, with `CostError` at once if there are not so many in all, or with `StoreError` when Redis has not answered for
   * five seconds. Someone who holds permits and waits for more may wait for ever: take all at once.
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
   * Does work while it holds permits, and gives them back however it ends. Work that must stop when the lease is lost heeds
   * `lease.signal`.
   */
  async use<R>(work: (lease: Lease) => Promise<R>, options: AcquireOptions = {}): Promise<R> {
    const lease = await this.acquire(options)
    try {
      return await work(lease)
    } finally {
      await lease[Symbol.asyncDispose]()
    }
  }

  /**
   * Takes over a lease by its id, in this process or another: the same permits with a new fencing token. Whoever held it has lost it.
   * `lease` (default '30s') is its length from now on. null if it has ended.
   */
  async resume(id: string, options: { lease?: Duration; renew?: boolean } = {}): Promise<Lease | null> {
    checkOptions('resume', options, RESUME_OPTIONS, "{ lease: '30s' }")
    const leaseMs = leaseOf(options, 'resume')
    this.#checkOpen()
    const grant = await this.#asked.resume(checkId(id, 'resume'), leaseMs, this.#mailbox.address)
    return grant && this.#leaseFor(grant, grant.permits, leaseMs, options.renew !== false)
  }

  /** Ends a lease, whoever holds it. False if there is none of that id. */
  async forceRelease(id: string): Promise<boolean> {
    return this.#asked.force(checkId(id, 'forceRelease'))
  }

  /** Deletes it with all that is held: leases are lost, and who waits rejects with `NotInitializedError`. False if there was none. */
  async delete(): Promise<boolean> {
    return this.#asked.delete()
  }

  /**
   * Those who wait on this object reject, and have left the line in Redis when this resolves: at most after 1 s, at once without a connection.
   * Leases are no longer extended, but hold until their deadline and can still be released. The client stays open: it is yours.
   */
  async close(): Promise<void> {
    this.#closed ??= new SpillwayError(`${this.#subject} was closed`)
    for (const lease of this.#leases) lease.detach()
    await this.#line.close(this.#closed)
  }

  /** Throws what is wrong with the options. Not async, and the lease is made where the answer is read: promises are a good part of what a lease costs. */
  #take(options: AcquireOptions, patience: Patience, method: string): Promise<Lease> {
    const { permits = 1, renew = true } = options
    if (!Number.isSafeInteger(permits) || permits < 1) {
      throw new CostError(`${method}: permits ${shown(permits)}: expected an integer ≥ 1, like 1`)
    }
    const leaseMs = leaseOf(options, method)
    this.#checkOpen()
    const watch = this.#watch
    if (watch === undefined) {
      return this.#line.take(permits, leaseMs, patience, grant => this.#leaseFor(grant, permits, leaseMs, renew))
    }
    return watched(watch, patience.signal, granted => {
      const leaseFor = (grant: Grant) => {
        granted()
        return this.#leaseFor(grant, permits, leaseMs, renew)
      }
      return this.#line.take(permits, leaseMs, patience, leaseFor)
    })
  }

  #leaseFor(grant: Grant, permits: number, leaseMs: number, renews: boolean): Lease {
    const tellEnd = this.#watch?.hold(permits)
    const ended = () => {
      tellEnd?.(lease.lost)
      this.#leases.delete(lease)
      this.#mailbox.release()
    }
    const renewing = renews && this.#closed === undefined
    const lease = new HeldLease(this.#line, this.#renewals, grant, permits, leaseMs, renewing, ended)
    this.#leases.add(lease)
    this.#mailbox.hold()
    return lease
  }

  #hear(text: string): void {
    if (text.endsWith('?')) this.#renewals.look(this.#line)
    else this.#line.hear()
  }

  /** Messages may have been missed. */
  #look(): void {
    this.#line.hear()
    if (this.#leases.size > 0) this.#renewals.look(this.#line)
  }

  /** For commands that must not overtake what was asked before. */
  get #asked(): SemaphoreCommands {
    this.#line.flush()
    return this.#commands
  }

  #checkOpen(): void {
    if (this.#closed) throw this.#closed
  }
}
