import { Deadline, suspendedMs, wallOffset } from '../../limiter/core/clock.js'
import { CostError, NotInitializedError, TimeoutError } from '../../limiter/core/errors.js'
import { type Patience, Wait } from '../../limiter/core/wait.js'
import type { ClientPort } from '../../redis/client.js'
import { semaphoreAsk } from '../../redis/scripts.js'
import { TimelyScripts } from '../../redis/timely-scripts.js'
import { type GrantFacts, type LineAsk, type LineUser, SharedObjectLine, type Wanted } from '../line/line-user.js'
import type { Mailbox } from '../line/mailbox.js'
import { WaitingLine } from '../line/waiting-line.js'
import { Asked, type Grant, newLeaseId, type SemaphoreCommands } from './commands.js'
import { DirectTakes, LONGEST_WITHOUT_FACT_MS } from './direct-takes.js'

/** A release is rejected when Redis does not answer for this time. */
const RELEASE = new Deadline(5000)
/** How long closing waits for the answers to direct takes. */
const CLOSING = new Deadline(1000)

/** Who waits for a direct take. */
interface Caller<T> {
  readonly promise: Promise<T>
  readonly ended: boolean
  resolve(value: T): void
  reject(error: unknown): void
}

/** As `Wait`, for a caller without a timeout and a signal: without their costs. */
class PlainCaller<T> implements Caller<T> {
  ended = false
  readonly promise: Promise<T>
  #resolve!: (value: T) => void
  #reject!: (error: unknown) => void

  constructor() {
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  resolve(value: T): void {
    this.ended = true
    this.#resolve(value)
  }

  reject(error: unknown): void {
    this.ended = true
    this.#reject(error)
  }
}

/**
 * The waiting line of a semaphore, as seen by one object: its asks carry takes and releases, so that a process that
 * does both sends one command for many of them.
 */
export class SemaphoreLine extends SharedObjectLine implements LineUser<Grant> {
  /** Token and deadline. */
  readonly width = 2
  readonly #line: WaitingLine<Grant>
  readonly #direct: DirectTakes
  #closed: Error | undefined
  /** The last ask, and the offset of the clocks when it was sent: see `wallOffset`. */
  #asked: LineAsk | undefined
  #offset = 0

  constructor(
    readonly commands: SemaphoreCommands,
    port: ClientPort,
    mailbox: Mailbox,
  ) {
    super(commands.subject, port, mailbox)
    this.#line = new WaitingLine(this)
    this.#direct = new DirectTakes(commands, port, mailbox.address, () => this.#sendChange('v', this.#direct.sender))
  }

  /**
   * Takes permits, and returns the result of `leaseOf` for the grant. Throws the reason of an already aborted signal.
   * Rejects with `TimeoutError`, the signal's reason, `CostError` for more permits than exist, `NotInitializedError`,
   * and `StoreError` if Redis does not answer for five seconds.
   */
  take<Lease>(permits: number, leaseMs: number, patience: Patience, leaseOf: (grant: Grant) => Lease): Promise<Lease> {
    patience.signal?.throwIfAborted()
    const id = newLeaseId()
    if (this.#line.isIdle && this.#direct.canTake(permits, leaseMs)) {
      return this.#takeDirectly(id, leaseMs, patience, leaseOf)
    }
    if (!this.#line.hasWaitersInLine && this.#direct.shouldOpen) this.#open()
    const hasNoFact = permits === 1 && this.commands.isTimedByServer && leaseMs <= LONGEST_WITHOUT_FACT_MS
    return this.#line.wait(permits, `${leaseMs} ${hasNoFact ? '~' : ''}${id}`, patience).then(leaseOf)
  }

  #takeDirectly<Lease>(
    id: string,
    leaseMs: number,
    patience: Patience,
    leaseOf: (grant: Grant) => Lease,
  ): Promise<Lease> {
    const { timeoutMs, signal } = patience
    // Set where a refused take has joined the line, and its caller may still give up by its own timeout or signal.
    let leave: AbortController | undefined
    const isPlain = signal === undefined && (timeoutMs === 0 || timeoutMs === Number.POSITIVE_INFINITY)
    const caller: Caller<Lease> = isPlain
      ? new PlainCaller<Lease>()
      : new Wait<Lease>(
          timeoutMs === 0 ? { timeoutMs: Number.POSITIVE_INFINITY, signal } : patience,
          () => {
            leave?.abort()
            return this.timedOut(undefined, timeoutMs)
          },
          () => leave?.abort(),
        )
    const granted = (grant: Grant) => {
      if (this.#closed !== undefined) caller.reject(this.#closed)
      // Nobody waits for it any more.
      if (caller.ended) this.end(grant.name, grant.token).catch(() => {})
      else caller.resolve(leaseOf(grant))
    }
    this.#direct.take({
      id,
      leaseMs,
      granted,
      refused: unknown => {
        if (unknown) this.#sendChange('e', `~${id}`)
        if (this.#closed !== undefined) caller.reject(this.#closed)
        if (caller.ended) return
        if (!isPlain) leave = new AbortController()
        const rest = { timeoutMs: timeoutMs === 0 ? 0 : Number.POSITIVE_INFINITY, signal: leave?.signal }
        this.#line.wait(1, `${leaseMs} ~${id}`, rest).then(granted, error => caller.reject(error))
      },
      failed: cause => caller.reject(this.failed(cause)),
    })
    return caller.promise
  }

  #open(): void {
    this.#direct.shut()
    this.#sendChange('d', this.#direct.sender, newest => this.#direct.open(newest))
  }

  /** Sends a change whose failure is ignored. */
  #sendChange(letter: string, word: string, answered: (number: number) => void = () => {}): void {
    this.#line.send({ letter, words: [word, '', ''], answered, failed() {} })
  }

  /**
   * Ends a lease; false if it had ended. Rejects with `StoreError` after five seconds; if Redis is back shortly after
   * that, the lease is ended nevertheless.
   */
  end(name: string, token: bigint): Promise<boolean> {
    if (!name.startsWith('~') || !this.#direct.isOpen) return this.#endInLine(name, token)
    return new Promise((resolve, reject) => {
      this.#direct.release(name, {
        ended: () => resolve(true),
        // If the lease is gone after a lost connection, this process has ended it.
        absent: unknown => this.#endInLine(name, token).then(ended => resolve(ended || unknown), reject),
        failed: cause => reject(this.failed(cause)),
      })
    })
  }

  #endInLine(name: string, token: bigint): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const pending = { endsAt: 0, settled: false, expire: (error: Error) => reject(this.failed(error)) }
      RELEASE.start(pending)
      this.#line.send({
        letter: 'e',
        words: [name, name.startsWith('~') ? '' : String(token), ''],
        answered: count => RELEASE.answered(pending) && resolve(count === 1),
        failed: error => {
          if (!RELEASE.failed(pending)) return
          // Without a semaphore there are no leases.
          if (error instanceof NotInitializedError) resolve(false)
          else reject(error)
        },
      })
    })
  }

  /** Units may be free: asks if there are waiters. */
  hear(): void {
    this.#line.hear()
  }

  /** Sends pending changes before any other command, so that commands arrive in the order of the calls. */
  flush(): void {
    this.#line.flush()
  }

  /** Rejects all waiters; resolves when they have left the line. */
  async close(reason: Error): Promise<void> {
    this.#closed = reason
    const direct = this.#direct.settled()
    const answered =
      direct &&
      CLOSING.hold(direct).then(
        () => true,
        () => false,
      )
    await this.#line.close(reason)
    // Changes that remain for the line after the answers to direct takes.
    if ((await answered) && !this.#line.isIdle) await this.#line.close(reason)
  }

  begins(): void {
    this.#direct.shut()
  }

  send(ask: LineAsk, endsAt: number): Promise<unknown> {
    const { commands } = this
    const { member, replaces, words } = ask
    // Of its first copy: any of them may be the one that is answered.
    if (ask !== this.#asked) this.#offset = wallOffset()
    this.#asked = ask
    const records = [commands.record(member), commands.record(replaces === '' ? member : replaces)]
    const args = [...commands.common, String(commands.newest), ...words]
    return TimelyScripts.of(this.port).runForLine({
      script: semaphoreAsk,
      keys: [...commands.keys, ...records],
      args: until => [...args, until],
      endsAt,
      byServerClock: commands.clock === undefined,
    })
  }

  /** A lease that ended before its grant was read is exchanged for the old place in the line. */
  isLate({ details }: Wanted, ageMs: number, _: number, again: boolean): boolean {
    return (
      !again && this.commands.clock === undefined && ageMs + suspendedMs(this.#offset) >= Number.parseInt(details, 10)
    )
  }

  grant({ details }: Wanted, { facts, askedAt }: GrantFacts): Grant {
    const [token, expiresAt] = facts
    const name = details.slice(details.indexOf(' ') + 1)
    this.#direct.granted()
    return {
      id: name.startsWith('~') ? name.slice(1) : name,
      name,
      token: this.commands.saw(BigInt(token)),
      expiresAt: Number(expiresAt),
      asked: new Asked(askedAt, this.#offset),
    }
  }

  refusal({ cost }: Wanted, waitMs: number, most: number): Error {
    if (waitMs >= 0) return this.timedOut(undefined, 0)
    return new CostError(`${this.subject}: permits ${cost}: there are ${most} in all, waiting would not help`)
  }

  timedOut(_: unknown, timeoutMs: number): Error {
    return new TimeoutError(`${this.subject}: no permits within ${timeoutMs} ms`)
  }

  ended(): Error {
    return this.commands.unset()
  }
}
