import { Deadline } from '../core/deadline.js'
import { CostError, NotInitializedError, StoreError, TimeoutError } from '../core/errors.js'
import type { ClientPort } from '../redis/client.js'
import { isFault } from '../redis/is-fault.js'
import { replyWords } from '../redis/reply-words.js'
import { runScript } from '../redis/run-script.js'
import { semaphoreAsk } from '../redis/scripts.js'
import type { GrantFacts, LineAsk, LineUser, Wanted } from '../waiting/line-user.js'
import type { Mailbox } from '../waiting/mailbox.js'
import type { Patience } from '../waiting/wait.js'
import { WaitingLine } from '../waiting/waiting-line.js'
import type { Grant, SemaphoreCommands } from './commands.js'
import { DirectTakes, LONGEST_WITHOUT_FACT_MS } from './direct-takes.js'
import { newLeaseId } from './lease-id.js'

/** Waiters and releases are rejected when Redis does not answer for this time. */
const DEADLINE_MS = 5000
const RELEASE = new Deadline(DEADLINE_MS)
/** How long closing waits for the answers to direct takes. */
const CLOSING = new Deadline(1000)

/**
 * The waiting line of a semaphore, as seen by one object: its asks carry takes and releases, so that a process that does both
 * sends one command for many of them.
 */
export class SemaphoreLine implements LineUser<Grant> {
  /** Token and deadline. */
  readonly width = 2
  readonly deadlineMs = DEADLINE_MS
  readonly isFault = isFault
  readonly #line: WaitingLine<Grant>
  readonly #direct: DirectTakes
  #closed: Error | undefined
  /** True while waiters of this object are in the line on the server. */
  #hasWaiters = false
  #forgetReady: (() => void) | undefined

  constructor(
    readonly commands: SemaphoreCommands,
    readonly port: ClientPort,
    readonly mailbox: Mailbox,
  ) {
    this.#line = new WaitingLine(this)
    this.#direct = new DirectTakes(commands, port, mailbox.address, () => this.#sendChange('v', this.#direct.sender))
  }

  get subject(): string {
    return this.commands.subject
  }

  get address(): string {
    return this.mailbox.address
  }

  get canHear(): boolean {
    return this.mailbox.canHear
  }

  /**
   * Takes permits, and returns the result of `leaseOf` for the grant. Throws the reason of an already aborted signal. Rejects with `TimeoutError`, the signal's reason, `CostError` for more permits than exist, `NotInitializedError`,
   * and `StoreError` if Redis does not answer for five seconds.
   */
  take<Lease>(permits: number, leaseMs: number, patience: Patience, leaseOf: (grant: Grant) => Lease): Promise<Lease> {
    const { signal, timeoutMs } = patience
    signal?.throwIfAborted()
    const id = newLeaseId()
    // A direct take cannot be cancelled.
    const isPlain = signal === undefined && (timeoutMs === 0 || timeoutMs === Number.POSITIVE_INFINITY)
    if (isPlain && this.#line.isIdle && this.#direct.canTake(permits, leaseMs))
      return this.#takeDirectly(id, leaseMs, patience, leaseOf)
    if (!this.#hasWaiters && this.#direct.shouldOpen) this.#open()
    const name = permits === 1 && this.commands.mayLackFacts && leaseMs <= LONGEST_WITHOUT_FACT_MS ? `~${id}` : id
    return this.#line.wait(permits, `${leaseMs} ${name}`, patience).then(leaseOf)
  }

  #takeDirectly<Lease>(
    id: string,
    leaseMs: number,
    patience: Patience,
    leaseOf: (grant: Grant) => Lease,
  ): Promise<Lease> {
    return new Promise((resolve, reject) => {
      this.#direct.take({
        id,
        leaseMs,
        granted: grant => {
          if (this.#closed === undefined) resolve(leaseOf(grant))
          else {
            this.end(grant.name, grant.token).catch(() => {})
            reject(this.#closed)
          }
        },
        refused: unknown => {
          if (unknown) this.#sendChange('e', `~${id}`)
          if (this.#closed === undefined) resolve(this.#line.wait(1, `${leaseMs} ~${id}`, patience).then(leaseOf))
          else reject(this.#closed)
        },
        failed: cause => reject(this.failed(cause)),
      })
    })
  }

  #open(): void {
    this.#direct.shut()
    this.#sendChange('d', this.#direct.sender, newest => this.#direct.open(newest))
  }

  /** Sends a change whose failure is ignored. */
  #sendChange(letter: string, word: string, answered: (number: number) => void = () => {}): void {
    this.#line.send({ letter, words: [word, '', ''], answered, failed() {} })
  }

  /** Ends a lease; false if it had ended. Rejects with `StoreError` after five seconds; if Redis is back shortly after that, the lease is ended nevertheless. */
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

  hold(): void {
    this.#hasWaiters = true
    this.#direct.shut()
    this.mailbox.hold()
    this.#forgetReady = this.port.onReady(() => this.#line.resend())
  }

  release(): void {
    this.#hasWaiters = false
    this.mailbox.release()
    this.#forgetReady?.()
  }

  ready(): boolean {
    return this.port.state() !== 'down'
  }

  send({ member, replaces, words }: LineAsk): Promise<unknown> {
    const { commands } = this
    const records = [commands.record(member), commands.record(replaces === '' ? member : replaces)]
    const args = [...commands.common, String(commands.newest), ...words]
    return runScript(this.port, semaphoreAsk, [...commands.keys, ...records], args)
  }

  /** A lease that ended before its grant was read is exchanged for the old place in the line. */
  isLate({ own }: Wanted, ageMs: number, _: number, again: boolean): boolean {
    return !again && this.commands.clock === undefined && ageMs >= Number.parseInt(own, 10)
  }

  grant({ own }: Wanted, { facts, ageMs }: GrantFacts): Grant {
    const [token, expiresAt] = facts
    const name = own.slice(own.indexOf(' ') + 1)
    this.#direct.granted()
    return {
      id: name.startsWith('~') ? name.slice(1) : name,
      name,
      token: this.commands.saw(BigInt(token)),
      expiresAt: Number(expiresAt),
      askedAt: performance.now() - ageMs,
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

  failed(cause: unknown): Error {
    return new StoreError(`${this.subject}: Redis failed: ${replyWords(cause)}`, { cause })
  }
}
