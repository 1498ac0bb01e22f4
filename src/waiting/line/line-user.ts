import type { ClientPort } from '../../redis/client.js'
import { isFault, notConnected, redisFailed } from '../../redis/replies.js'
import type { Copies } from '../../redis/timely-scripts.js'
import type { Mailbox } from './mailbox.js'

/** One ask, ready to be sent: the script reads the words after the user's own arguments. */
export interface LineAsk {
  /** The member that asks; it has a record key of its own. */
  readonly member: string
  /** The member that it replaces; '' if none. */
  readonly replaces: string
  readonly words: readonly string[]
  readonly copies: Copies
}

/** The request of a waiter. */
export interface Wanted {
  readonly cost: number
  /** Data that only the user of the line reads. */
  readonly details: string
}

/** The server's data of a grant. */
export interface GrantFacts {
  /** The facts that the user's script returns for this grant. */
  readonly facts: readonly string[]
  /** Its moment, by the server's clock, ms. */
  readonly at: number
  /** The earliest moment at which it may have been made, by the timing of the line. */
  readonly askedAt: number
}

/**
 * The user of a waiting line (a limiter, shared rate or semaphore): what it counts, how it asks, and which errors it
 * gives.
 */
export interface LineUser<Grant> {
  /** Where the server wakes this process. It is held while waiters of this process are in the line. */
  readonly mailbox: LineMailbox
  /** How many facts the script returns for each grant. */
  readonly width: number
  /** How long the server may be silent before the waiters are rejected, ms. */
  readonly deadlineMs: number
  /** Before this moment, by `performance.now()`, no waiter is rejected because the server is silent. Default: 0. */
  connectsUntil?(): number
  /** Waiters of this process are in the line from now on. */
  begins?(): void
  /**
   * Calls back whenever the client becomes ready; the returned function unsubscribes. Without it, the user calls
   * `resend` itself.
   */
  onReady?(listener: () => void): () => void
  /** False while nothing may be sent. */
  ready(): boolean
  /** Why the server is known to fail at this moment; undefined if it is not. */
  failing?(): unknown
  /**
   * `endsAt`: by `performance.now()`, the last moment at which the server may carry the ask out. Its process has given
   * it up then.
   */
  send(ask: LineAsk, endsAt: number): Promise<unknown>
  /** True for an error that repeating would not cure. */
  isFault(error: unknown): boolean
  /** Whether a grant is too old to be used. `again`: the waiter's previous grant was too old, too. */
  isLate(wanted: Wanted, ageMs: number, lateMs: number, again: boolean): boolean
  grant(wanted: Wanted, facts: GrantFacts): Grant
  /**
   * The error for a wait in ms that exceeds the waiter's timeout; below 0: it can never be granted. `most`: the
   * capacity.
   */
  refusal(wanted: Wanted, waitMs: number, most: number): unknown
  timedOut(wanted: Wanted, timeoutMs: number): unknown
  /** The error for a script code below 0, which ends the wait of all. */
  ended(code: number): unknown
  /** The error when the server has failed, or was silent for longer than the deadline. */
  failed(cause: unknown): unknown
}

/** The part of a `Mailbox` that a line uses. */
type LineMailbox = Pick<Mailbox, 'address' | 'canHear' | 'hold' | 'release'>

/**
 * What the lines of all shared objects have in common: waiters are rejected when Redis does not answer for five
 * seconds.
 */
export abstract class SharedObjectLine {
  readonly deadlineMs = 5000
  readonly isFault = isFault

  /** `subject`: the object in errors, like `Semaphore "jobs"`. */
  constructor(
    readonly subject: string,
    readonly port: ClientPort,
    readonly mailbox: Mailbox,
  ) {}

  ready(): boolean {
    return this.failing() === undefined
  }

  failing(): Error | undefined {
    return notConnected(this.port.state())
  }

  onReady(listener: () => void): () => void {
    return this.port.onReady(listener)
  }

  failed(cause: unknown): Error {
    return redisFailed(this.subject, cause)
  }
}

/** Only the first grant in a row is refused as late: the second is used, however old it is. */
export function isLateOnce(_: Wanted, ageMs: number, lateMs: number, again: boolean): boolean {
  return ageMs > lateMs && !again
}
