/** One ask, ready to be sent: the script reads the words from the place that the user gives them. */
export interface LineAsk {
  /** The member that asks; its record has a key of its own. */
  readonly member: string
  /** The member that it replaces; '' for none. */
  readonly replaces: string
  readonly words: readonly string[]
}

/** What a waiter has asked for. */
export interface Wanted {
  readonly cost: number
  readonly own: string
}

/** What a grant is made of. */
export interface GrantFacts {
  /** What the user's script tells of it. */
  readonly facts: readonly string[]
  /** Its moment, by the server's clock, ms. */
  readonly at: number
  /** How old it may be, ms. */
  readonly ageMs: number
}

/** Who waits in a line: what it counts, how it asks, and what it calls things. */
export interface LineUser<Grant> {
  /** "process/number": see `Mailbox.address`. */
  readonly address: string
  /** How many facts the script tells of each grant. */
  readonly width: number
  /** How long the server may be silent before those who wait are rejected, ms. */
  readonly deadlineMs: number
  /** False where the server cannot tell this process to ask. */
  readonly canHear: boolean
  /** Starts and stops listening for that. */
  hold(): void
  release(): void
  /** False while it makes no sense to send. */
  ready(): boolean
  send(ask: LineAsk): Promise<unknown>
  /** True for an error that asking again would not cure. */
  isFault(error: unknown): boolean
  /** Whether a grant may no longer be used. `again`: the one before it was not used either. */
  isLate(wanted: Wanted, ageMs: number, lateMs: number, again: boolean): boolean
  grant(wanted: Wanted, facts: GrantFacts): Grant
  /** A wait in ms that is longer than the waiter waits; below 0: it can never be granted. `most`: the capacity. */
  refusal(wanted: Wanted, waitMs: number, most: number): unknown
  timedOut(wanted: Wanted, timeoutMs: number): unknown
  /** A word of the script below 0, which ends the wait of all. */
  ended(word: number): unknown
  /** The server has failed, or has been silent for longer than the deadline. */
  failed(cause: unknown): unknown
}

/** A grant is used if it is in time, or the second in a row that is not. */
export function isLateOnce(_: Wanted, ageMs: number, lateMs: number, again: boolean): boolean {
  return ageMs > lateMs && !again
}
