import { asyncDispose } from '../../limiter/core/async-dispose.js'
import type { Duration } from '../../limiter/core/duration.js'
import { LeaseLostError, StoreError } from '../../limiter/core/errors.js'
import { type Asked, type Grant, leaseMsOf } from './commands.js'
import type { SemaphoreLine } from './line.js'

/** Redis counts whole ms, rounded down: there a lease may end so much earlier. */
const ROUNDING_MS = 1

/** Permits of a semaphore that belong to this process until the deadline. */
export interface Lease extends AsyncDisposable {
  /**
   * At most 100 characters, of which 128 bits are random. Any process that knows it can `resume` the lease, which then
   * gets another id.
   */
  readonly id: string
  /** How many permits it holds. */
  readonly permits: number
  /**
   * Fencing token. It grows with every lease and every `resume` of the semaphore while Redis keeps its keys, even if
   * clocks step. After Redis lost them (a restart or failover without the newest writes, FLUSHALL, `delete`) it
   * continues to grow if the server's clock is not behind the moment of the last token, or if the requesting object has
   * seen that token. Send it with every write: the receiver must reject a token below the greatest it has seen.
   */
  readonly token: bigint
  /** ms since the epoch, by the server's clock. */
  readonly expiresAt: number
  /** False once it is released, or known to be lost. */
  readonly held: boolean
  /**
   * Aborted with `LeaseLostError` when the lease is lost; not when it is released. From the first look at it on, this
   * process listens, and hears at once when another ends the lease or takes it over; without, at the next extension.
   */
  readonly signal: AbortSignal
  /**
   * Extends the lease to this length from now on, and later extensions too; at most ten years; default: the length so
   * far. False if it was lost or released. Rejects with `StoreError` if Redis fails, or does not answer within five
   * seconds. It never takes longer than the lease lasts.
   */
  renew(lease?: Duration): Promise<boolean>
  /**
   * Gives the permits back. False if the lease was released or lost before. Rejects with `StoreError` if Redis does not
   * answer within five seconds: the caller may then try again, and the lease ends at its deadline at the latest.
   */
  release(): Promise<boolean>
  /** Stops the automatic extension: the lease ends at its deadline. */
  detach(): void
}

/** Extends leases automatically. */
export interface Keeper {
  add(lease: HeldLease): void
  remove(lease: HeldLease): void
  renew(lease: HeldLease, leaseMs: number): Promise<boolean>
}

export class HeldLease implements Lease {
  readonly id: string
  readonly token: bigint
  /** See `Grant`. */
  readonly mayCome: boolean
  readonly #keeper: Keeper
  /** Created on first use: most leases are never lost, and few callers watch the signal. */
  #controller: AbortController | undefined
  #lost: LeaseLostError | undefined
  /** Called when the lease is lost or released. */
  #endings: Set<() => void> | undefined
  #state: 'held' | 'lost' | 'releasing' | 'released' = 'held'
  #expiresAt: number
  /** Before the grant or the last extension, from which the server counts. */
  #asked: Asked
  /** By `performance.now()`; Infinity if it is not extended. */
  renewAt: number
  /** True while an extension is in flight. */
  asking = false

  constructor(
    readonly home: SemaphoreLine,
    keeper: Keeper,
    grant: Grant,
    readonly permits: number,
    public leaseMs: number,
    renews: boolean,
    readonly ended: () => void,
  ) {
    this.#keeper = keeper
    this.id = grant.id
    this.mayCome = grant.mayCome
    this.token = grant.token
    this.#expiresAt = grant.expiresAt
    this.#asked = grant.asked
    this.renewAt = renews ? grant.asked.at + leaseMs / 3 : Number.POSITIVE_INFINITY
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
      else if (this.#state === 'held') {
        this.home.mailbox.hold()
        this.#whenEnded(() => this.home.mailbox.release())
      }
    }
    return this.#controller.signal
  }

  get lost(): boolean {
    return this.#state === 'lost'
  }

  /** The time until the deadline, by the clock that decides. */
  get leftMs(): number {
    const { clock } = this.home.commands
    if (clock !== undefined) return this.#expiresAt - clock.now()
    return this.leaseMs - ROUNDING_MS - this.#asked.ageMs
  }

  async renew(lease?: Duration): Promise<boolean> {
    const leaseMs = lease === undefined ? this.leaseMs : leaseMsOf(lease, 'renew: lease')
    if (!this.held) return false
    return new Promise((resolve, reject) => {
      const over = () => resolve(false)
      this.#whenEnded(over)
      const renewed = this.#keeper.renew(this, leaseMs).finally(() => this.#endings?.delete(over))
      renewed.then(resolve, reject)
    })
  }

  release(): Promise<boolean> {
    if (!this.held && this.#state !== 'releasing') return Promise.resolve(false)
    const first = this.#state === 'held'
    this.#state = 'released'
    if (first) this.#end()
    return this.home.end(this).catch(error => {
      this.#state = 'releasing'
      throw error
    })
  }

  detach(): void {
    this.renewAt = Number.POSITIVE_INFINITY
  }

  /** A failed release does not fail the finished work: the lease then ends at its deadline. */
  async [asyncDispose](): Promise<void> {
    try {
      await this.release()
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
    }
  }

  /** On the server it lasts `leaseMs` from the moment of the request. */
  extended(expiresAt: number, asked: Asked, leaseMs: number): void {
    this.#expiresAt = expiresAt
    this.#asked = asked
    this.leaseMs = leaseMs
    if (this.renewAt < Number.POSITIVE_INFINITY) this.renewAt = asked.at + leaseMs / 3
  }

  lose(why: string): void {
    if (this.#state !== 'held') return
    this.#state = 'lost'
    this.#end()
    this.#lost = new LeaseLostError(`${this.home.subject}: the lease was lost: ${why}`)
    this.#controller?.abort(this.#lost)
    // Nobody else knows that a copy of its take may come, after whoever has ended it.
    if (this.mayCome) this.home.end(this).catch(() => {})
  }

  #whenEnded(act: () => void): void {
    this.#endings ??= new Set()
    this.#endings.add(act)
  }

  #end(): void {
    this.#keeper.remove(this)
    for (const act of this.#endings ?? []) act()
    this.ended()
  }
}
