import type { Duration } from '../core/duration.js'
import { parseOption } from '../core/duration.js'
import { LeaseLostError, StoreError } from '../core/errors.js'
import type { Grant, SemaphoreCommands } from './commands.js'

// `await using` needs it, and so does whoever calls it by hand; Node has it from 20.5.1 on. Registered, so that two copies of this
// package agree.
if (Symbol.asyncDispose === undefined) {
  Object.defineProperty(Symbol, 'asyncDispose', { value: Symbol.for('Symbol.asyncDispose') })
}

/** Permits of a semaphore that are ours until its deadline. */
export interface Lease extends AsyncDisposable {
  /** 128 random bits. Whoever knows it can `resume` the lease. */
  readonly id: string
  readonly permits: number
  /**
   * Fencing token: greater than that of every earlier lease of the semaphore, also when its keys were lost in between. Send it with
   * every write: who is written to refuses a token below the greatest it has seen.
   */
  readonly token: bigint
  /** ms since the epoch, by the server's clock. */
  readonly expiresAt: number
  /** False once it was released or lost. */
  readonly held: boolean
  /** Aborted with `LeaseLostError` when the lease is lost, as soon as that can be known; not when it is released. */
  readonly signal: AbortSignal
  /**
   * From now on it lasts so long, and is extended by as much; default: as long as before. False if it was lost or released. Rejects
   * with `StoreError`.
   */
  renew(lease?: Duration): Promise<boolean>
  /**
   * Gives the permits back. False if it had been released or lost before. Rejects with `StoreError`: then it may be tried again, and
   * the lease ends at its deadline at the latest.
   */
  release(): Promise<boolean>
  /** Stops extending it: it ends at its deadline. */
  detach(): void
}

/** What keeps leases alive. */
export interface Keeper {
  add(lease: HeldLease): void
  remove(lease: HeldLease): void
  renew(lease: HeldLease, leaseMs: number): Promise<boolean>
}

export class HeldLease implements Lease {
  readonly #keeper: Keeper
  /** Made when it is first asked for: most leases are never lost, and few are watched. */
  #controller: AbortController | undefined
  #lost: LeaseLostError | undefined
  #state: 'held' | 'lost' | 'releasing' | 'released' = 'held'
  #expiresAt: number
  /** Of `performance.now()`, no later than the deadline that the server has. */
  #endsAt: number
  /** Of `performance.now()`; Infinity when it is not extended. */
  renewAt: number
  /** True while the server is asked to extend it. */
  asking = false

  constructor(
    readonly home: SemaphoreCommands,
    keeper: Keeper,
    readonly id: string,
    readonly permits: number,
    readonly token: bigint,
    public leaseMs: number,
    grant: Grant,
    renews: boolean,
    readonly ended: () => void,
  ) {
    this.#keeper = keeper
    this.#expiresAt = grant.expiresAt
    this.#endsAt = grant.askedAt + leaseMs
    this.renewAt = renews ? grant.askedAt + leaseMs / 3 : Number.POSITIVE_INFINITY
    keeper.add(this)
  }

  get expiresAt(): number {
    return this.#expiresAt
  }

  get held(): boolean {
    if (this.#state === 'held' && this.leftMs <= 0) this.lose('its deadline has passed')
    return this.#state === 'held'
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#lost) this.#controller.abort(this.#lost)
    }
    return this.#controller.signal
  }

  get lost(): boolean {
    return this.#state === 'lost'
  }

  /** Until its deadline, by the clock that judges it. */
  get leftMs(): number {
    const { clock } = this.home
    return clock === undefined ? this.#endsAt - performance.now() : this.#expiresAt - clock.now()
  }

  async renew(lease?: Duration): Promise<boolean> {
    const leaseMs = lease === undefined ? this.leaseMs : parseOption(lease, 'renew: lease')
    if (!this.held) return false
    return this.#keeper.renew(this, leaseMs)
  }

  async release(): Promise<boolean> {
    if (!this.held && this.#state !== 'releasing') return false
    const first = this.#state === 'held'
    this.#state = 'released'
    if (first) this.#end()
    try {
      return await this.home.release(this.id, this.token)
    } catch (error) {
      this.#state = 'releasing'
      throw error
    }
  }

  detach(): void {
    this.renewAt = Number.POSITIVE_INFINITY
  }

  /** A failing release is no failure of the work that is done: the lease then ends at its deadline. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.release()
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
    }
  }

  /** The server has it last `leaseMs` from when it was asked. */
  extended(expiresAt: number, askedAt: number, leaseMs: number): void {
    this.#expiresAt = expiresAt
    this.#endsAt = askedAt + leaseMs
    this.leaseMs = leaseMs
    if (this.renewAt < Number.POSITIVE_INFINITY) this.renewAt = askedAt + leaseMs / 3
  }

  lose(why: string): void {
    if (this.#state !== 'held') return
    this.#state = 'lost'
    this.#end()
    this.#lost = new LeaseLostError(`${this.home.subject}: the lease was lost: ${why}`)
    this.#controller?.abort(this.#lost)
  }

  #end(): void {
    this.#keeper.remove(this)
    this.ended()
  }
}
