import { suspendedMs, wallOffset } from '../../limiter/core/clock.js'
import { CostError, NotInitializedError, TimeoutError } from '../../limiter/core/errors.js'
import { type Patience, Wait } from '../../limiter/core/wait.js'
import type { ClientPort } from '../../redis/client.js'
import { semaphoreAsk } from '../../redis/scripts.js'
import { TimelyScripts } from '../../redis/timely-scripts.js'
import { type GrantFacts, type LineAsk, type LineUser, SharedObjectLine, type Wanted } from '../line/line-user.js'
import type { Mailbox } from '../line/mailbox.js'
import { WaitingLine } from '../line/waiting-line.js'
import { Asked, type Grant, type SemaphoreCommands } from './commands.js'
import { newLeaseName } from './lease-name.js'
import { type Refusal, Takes } from './takes.js'

/** Who waits for a take. */
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
 * Takes and ends the leases of one semaphore, for one object. While nobody waits, both are short commands: see `Takes`.
 * Else the waiting line carries them: a process that does both sends one ask for many of them.
 */
export class SemaphoreLine extends SharedObjectLine implements LineUser<Grant> {
  /** Token and deadline. */
  readonly width = 2
  readonly #line: WaitingLine<Grant>
  readonly #takes: Takes
  /**
   * Somebody waited when this object last asked: takes and ZREMs would find nothing, and cost those who wait a round
   * trip. It is over when the line grants at once.
   */
  #isContended = false
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
    this.#takes = new Takes(commands, port)
  }

  /**
   * Takes permits, and returns the result of `leaseOf` for the grant. Throws the reason of an already aborted signal.
   * Rejects with `TimeoutError`, the signal's reason, `CostError` for more permits than exist, `NotInitializedError`,
   * and `StoreError` if Redis does not answer for five seconds.
   */
  take<Lease>(permits: number, leaseMs: number, patience: Patience, leaseOf: (grant: Grant) => Lease): Promise<Lease> {
    patience.signal?.throwIfAborted()
    if (!this.#isContended && this.#line.isIdle && this.#takes.canTake(leaseMs)) {
      return this.#takeAtOnce(permits, leaseMs, patience, leaseOf)
    }
    return this.#wait(permits, leaseMs, patience).then(leaseOf)
  }

  #wait(permits: number, leaseMs: number, patience: Patience): Promise<Grant> {
    // `begins` sets it again, if the line does not grant at once.
    this.#isContended = false
    return this.#line.wait(permits, `${leaseMs} ${newLeaseName(permits, this.mailbox.address)}`, patience)
  }

  begins(): void {
    this.#isContended = true
  }

  #takeAtOnce<Lease>(
    permits: number,
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
      if (caller.ended) this.end(grant).catch(() => {})
      else caller.resolve(leaseOf(grant))
    }
    const name = newLeaseName(permits, this.mailbox.address)
    const refused = ({ isFull, mayCome }: Refusal) => {
      const isRefused = isFull && !mayCome && timeoutMs === 0
      // Else it might wait behind its own lease: an earlier copy of the take may have been granted.
      if (!isRefused) this.#sendEnd(name, mayCome)
      else if (!caller.ended) caller.reject(this.timedOut(undefined, 0))
      if (this.#closed !== undefined) caller.reject(this.#closed)
      if (caller.ended) return
      if (!isPlain) leave = new AbortController()
      const rest = { timeoutMs: timeoutMs === 0 ? 0 : Number.POSITIVE_INFINITY, signal: leave?.signal }
      this.#wait(permits, leaseMs, rest).then(granted, error => caller.reject(error))
    }
    this.#takes.take({ name, leaseMs, granted, refused, failed: error => caller.reject(error) })
    return caller.promise
  }

  /**
   * Ends a lease; false if it had ended. Rejects with `StoreError` after five seconds; if Redis is back shortly after
   * that, the lease is ended nevertheless.
   */
  end(lease: { readonly id: string; readonly mayCome: boolean }): Promise<boolean> {
    const { id, mayCome } = lease
    // While this process waits, its next ask tells it. The permits of several are counted by scripts only.
    const byAsk = mayCome || this.#isContended || this.#line.size > 0 || !id.startsWith('1.')
    if (byAsk || !this.#takes.canRelease) return this.#ask(lease)
    return new Promise((resolve, reject) => {
      this.#takes.release(id, {
        ended: () => resolve(true),
        // If the lease is gone after a lost connection, this process has ended it.
        absent: mayBeEnded => this.#ask(lease).then(ended => resolve(ended || mayBeEnded), reject),
        failed: reject,
      })
    })
  }

  /** Ends a lease by an ask of the line. */
  #ask({ id, mayCome }: { readonly id: string; readonly mayCome: boolean }): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const { calls } = this.commands
      const pending = calls.begin(reject)
      const answered = (count: number) => {
        if (calls.end(pending)) resolve(count === 1)
      }
      this.#sendEnd(id, mayCome, answered, error => {
        if (!calls.end(pending)) return
        // Without a semaphore there are no leases.
        if (error instanceof NotInitializedError) resolve(false)
        else reject(error)
      })
    })
  }

  #sendEnd(
    name: string,
    mayCome: boolean,
    answered: (count: number) => void = () => {},
    failed: (error: unknown) => void = () => {},
  ): void {
    this.#line.send({ letter: 'e', words: [name, mayCome ? '1' : '', ''], answered, failed })
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
  close(reason: Error): Promise<void> {
    this.#closed = reason
    const { calls } = this.commands
    return calls.closing(Promise.all([this.#line.close(reason), this.#closeTakes(reason)]))
  }

  /** What takes in flight leave for the line is sent, too. */
  async #closeTakes(reason: Error): Promise<void> {
    await this.#takes.settled()
    if (!this.#line.isIdle) await this.#line.close(reason)
  }

  send(ask: LineAsk, endsAt: number): Promise<unknown> {
    const { commands } = this
    const { member, replaces, words, copies } = ask
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
      copies,
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
    return {
      id: details.slice(details.indexOf(' ') + 1),
      // An ask counts once, however often it comes.
      mayCome: false,
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
