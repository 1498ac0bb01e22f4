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
import { newLeaseId } from './lease-id.js'

/** For so long Redis may be away before those who wait, or release, are rejected. */
const DEADLINE_MS = 5000
const RELEASE = new Deadline(DEADLINE_MS)

/**
 * The waiting line of a semaphore, as one object of it sees it: leases are taken and released by its asks, so that a process that does both
 * sends one command for many of them.
 */
export class SemaphoreLine implements LineUser<Grant> {
  /** Token and deadline. */
  readonly width = 2
  readonly deadlineMs = DEADLINE_MS
  readonly isFault = isFault
  readonly #line: WaitingLine<Grant>
  #forgetReady: (() => void) | undefined

  constructor(
    readonly commands: SemaphoreCommands,
    readonly port: ClientPort,
    readonly mailbox: Mailbox,
  ) {
    this.#line = new WaitingLine(this)
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
   * Takes permits. Rejects with `TimeoutError`, the signal's reason, `CostError` for more than there are in all, `NotInitializedError`,
   * and `StoreError` if Redis has not answered for five seconds.
   */
  async take(permits: number, leaseMs: number, patience: Patience): Promise<Grant> {
    patience.signal?.throwIfAborted()
    return this.#line.wait(permits, `${leaseMs} ${newLeaseId()}`, patience)
  }

  /** Ends a lease; false if it had ended. Rejects with `StoreError` after five seconds; it is still ended when Redis is back soon. */
  async end(id: string, token: bigint): Promise<boolean> {
    let silent = false
    const answer = this.#line.change('e', [id, String(token), ''])
    const silence = () => {
      silent = true
    }
    try {
      return (await RELEASE.hold(answer, { silent: silence })) === 1
    } catch (error) {
      // Without a semaphore there are no leases.
      if (error instanceof NotInitializedError) return false
      throw silent ? this.failed(error) : error
    }
  }

  /** Something may have changed for those who wait. */
  hear(): void {
    this.#line.hear()
  }

  /** Sends what has been asked: before any other command, so that commands arrive in the order of the calls. */
  flush(): void {
    this.#line.flush()
  }

  /** Rejects all who wait; resolves when they have left the line. */
  close(reason: Error): Promise<void> {
    return this.#line.close(reason)
  }

  hold(): void {
    this.mailbox.hold()
    this.#forgetReady = this.port.onReady(() => this.#line.resend())
  }

  release(): void {
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

  /** A lease that has ended before its grant was read is exchanged for the old place. */
  isLate({ own }: Wanted, ageMs: number, _: number, again: boolean): boolean {
    return !again && this.commands.clock === undefined && ageMs >= Number.parseInt(own, 10)
  }

  grant({ own }: Wanted, { facts, ageMs }: GrantFacts): Grant {
    const [token, expiresAt] = facts
    return {
      id: own.slice(own.indexOf(' ') + 1),
      token: this.commands.saw(BigInt(String(token))),
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
