let openings = 0

/** As what a process stands in a line. It numbers its asks; a member that the server does not know is replaced by another. */
export class LineMember {
  readonly id: string
  /** Number of its last answered ask; 0: it is not open yet. */
  asked = 0
  /** Of the last answer that was read. */
  stamp = ''
  /** When that was, and for how long the server remembers the member, ms. */
  answeredAt = 0
  lifeMs = 0
  /** Its waiters in the line, as they were last told. */
  waiting = 0

  constructor(
    readonly address: string,
    readonly replaces = '',
  ) {
    this.id = `${address}.${openings++}`
  }

  /** True if the server may have forgotten it. Without waiters nothing is lost by opening another. */
  isStale(now: number): boolean {
    return this.asked > 0 && this.waiting === 0 && now - this.answeredAt >= this.lifeMs / 2
  }
}
