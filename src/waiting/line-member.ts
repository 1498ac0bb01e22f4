let openings = 0

/** The identity of a process in a line. It numbers its asks; if the server does not know the member, the process becomes another member. */
export class LineMember {
  readonly id: string
  /** The number of its last answered ask; 0: not opened yet. */
  asked = 0
  /** The stamp of the last answer that was read. */
  stamp = ''
  /** When it was answered, and for how long the server then remembers the member, ms. */
  answeredAt = 0
  lifeMs = 0
  /** The number of its waiters in the line, by the last answer. */
  waiting = 0

  constructor(
    readonly address: string,
    readonly replaces = '',
  ) {
    this.id = `${address}.${openings++}`
  }

  /** True if the server may have dropped it. Without waiters nothing is lost by opening another. */
  isStale(now: number): boolean {
    return this.asked > 0 && this.waiting === 0 && now - this.answeredAt >= this.lifeMs / 2
  }
}
