import type { Wait } from '../../limiter/core/wait.js'
import type { Outage } from '../../limiter/store-lines.js'
import type { LineAnswer } from './line-answer.js'
import type { LineAsk, LineUser } from './line-user.js'

let openings = 0

/** Without an ask the server forgets a member after a minute. One without waiters is given up before. */
const STALE_MS = 30_000

/**
 * The identity of a process in a line. It numbers its asks; if the server does not know the member, the process becomes
 * another member.
 */
class LineMember {
  #id: string | undefined
  /** The number of its last answered ask; 0: not opened yet. */
  asked = 0
  /** The stamp of the last answer that was read. */
  stamp = ''
  answeredAt = 0
  /** The number of its waiters in the line, by the last answer. */
  waiting = 0

  constructor(
    readonly mailbox: { readonly address: string },
    readonly replaces = '',
  ) {}

  /** Made when it is first needed: an address is drawn at random, which some runtimes forbid while a program loads. */
  get id(): string {
    this.#id ??= `${this.mailbox.address}.${openings++}`
    return this.#id
  }

  /** True if the server may have dropped it. Without waiters nothing is lost by opening another. */
  isStale(now: number): boolean {
    return this.asked > 0 && this.waiting === 0 && now - this.answeredAt >= STALE_MS
  }
}

/** One request that waits in a line. */
export interface LineWaiter<Grant> {
  readonly cost: number
  /** Data that only the user of the line reads, without commas and newlines; '' for none. */
  readonly details: string
  readonly wait: Wait<Grant>
  /** By the line's timing. */
  readonly joinedAt: number
  /** False: it takes what is free now, or nothing. */
  readonly waits: boolean
  /** `outside`: will join, or has left. `joining`: its ask is in flight. `inside`: is in the line. */
  place: 'outside' | 'joining' | 'inside'
  /** Its number within the member. */
  number: number
  /** Its place in the line; undefined until the server has assigned it. */
  ticket: number | undefined
  /**
   * Its last grant as the scripts read it, "at fact fact": the moment by the server's clock, ms, then the facts of the
   * user's script.
   */
  grant: string
  /** The last grant came late, so the next one is used however late it is. */
  wasLate: boolean
  /** What it does while the server fails. */
  readonly outage: Outage | undefined
  /** The server fails, and it waits elsewhere. */
  isAway: boolean
}

/** A waiter as the scripts read it: "number cost details". */
function waiterText({ number, cost, details }: LineWaiter<unknown>): string {
  return details === '' ? `${number} ${cost}` : `${number} ${cost} ${details}`
}

/** The most changes in one ask, except for grants that come back: the server processes them in about 1 ms. */
const MOST_CHANGES = 64

/** A grant that its waiter no longer wants, or was given too late. */
interface Return<Grant> {
  /** See `waiterText`. */
  readonly waiter: string
  /** See `LineWaiter`. */
  readonly grant: string
  /** The waiter that joins again, if it was granted too late. */
  readonly again: LineWaiter<Grant> | undefined
}

/** A change that only the user of the line defines, like the end of a lease. */
export interface CustomChange {
  readonly letter: string
  readonly words: readonly [string, string, string]
  answered(number: number): unknown
  failed(error: unknown): unknown
}

/** The changes in one ask. */
interface LineChangeSet<Grant> {
  readonly leaves: readonly LineWaiter<Grant>[]
  readonly returns: readonly Return<Grant>[]
  readonly custom: readonly CustomChange[]
  readonly joins: readonly LineWaiter<Grant>[]
}

/** The changes of a member since its last ask. */
class LineChanges<Grant> {
  readonly leaves = new Set<LineWaiter<Grant>>()
  /** Those with a ticket first: the server puts them into their places before it looks at newcomers. */
  joins = new Set<LineWaiter<Grant>>()
  returns: Return<Grant>[] = []
  custom: CustomChange[] = []

  get isEmpty(): boolean {
    return this.size === 0
  }

  get size(): number {
    return this.leaves.size + this.joins.size + this.returns.length + this.custom.length
  }

  /** True if no caller waits for any of these changes, so that more may be collected before they are sent. */
  get canGather(): boolean {
    return this.joins.size + this.custom.length === 0 && this.size < MOST_CHANGES
  }

  /** Takes out as many changes as one ask may carry, in the order in which the server must apply them. */
  take(): LineChangeSet<Grant> {
    let room = MOST_CHANGES
    const first = <T>(from: Iterable<T>): T[] => {
      const taken: T[] = []
      for (const one of from) {
        if (taken.length >= room) break
        taken.push(one)
      }
      room -= taken.length
      return taken
    }
    const leaves = first(this.leaves)
    // However many: who was granted too late joins again by the ask that gives its grant back, and all of them by one
    // ask, because nobody behind them may be granted before. They are no more than one answer has granted.
    const { returns } = this
    const back: LineWaiter<Grant>[] = []
    for (const { again } of returns) if (again !== undefined && this.joins.delete(again)) back.push(again)
    room -= returns.length + back.length
    const custom = first(this.custom)
    const joins = [...back, ...first(this.joins)]
    for (const waiter of leaves) this.leaves.delete(waiter)
    for (const waiter of joins) this.joins.delete(waiter)
    this.returns = []
    this.custom = this.custom.slice(custom.length)
    return { leaves, returns, custom, joins }
  }

  /** Puts back the returns and custom changes of an ask that was not carried out. */
  putBack({ returns, custom }: LineChangeSet<Grant>): void {
    this.returns = [...returns, ...this.returns]
    this.custom = [...custom, ...this.custom]
  }

  /** Waiters with tickets come back. */
  joinAgain(waiters: readonly LineWaiter<Grant>[]): void {
    this.joins = new Set([...waiters, ...this.joins])
  }
}

/**
 * The changes as asks.lua reads them: four words for each, and a newline after each word. `maxWaitMs` returns the
 * longest time that a waiter waits.
 */
function changeText<Grant>(
  { leaves, returns, custom, joins }: LineChangeSet<Grant>,
  maxWaitMs: (waiter: LineWaiter<Grant>) => number,
): string {
  let text = ''
  for (const waiter of leaves) text += `l\n${waiterText(waiter)}\n\n\n`
  for (const { waiter, grant } of returns) text += `r\n${waiter}\n\n${grant}\n`
  for (const { letter, words } of custom) text += `${letter}\n${words[0]}\n${words[1]}\n${words[2]}\n`
  for (const waiter of joins) {
    const mostMs = maxWaitMs(waiter)
    const ms = mostMs === Number.POSITIVE_INFINITY ? -1 : Math.floor(mostMs)
    text += `j\n${waiterText(waiter)}\n${waiter.ticket ?? ''}\n${ms}\n`
  }
  return text
}

/** An ask and its content. */
export interface NumberedAsk<Grant> {
  readonly number: number
  readonly changes: LineChangeSet<Grant>
  readonly ask: LineAsk
}

/**
 * The waiters of this process, which of them are in the line on the server, and the changes that are not sent yet. It
 * has no clock and sends nothing.
 */
export class LineMembership<Grant> {
  readonly changes = new LineChanges<Grant>()
  /** In the order of their requests. */
  readonly waiters = new Set<LineWaiter<Grant>>()
  readonly #user: LineUser<Grant>
  readonly #byNumber = new Map<number, LineWaiter<Grant>>()
  #member: LineMember
  #nextNumber = 0
  #capacity = Number.POSITIVE_INFINITY

  constructor(user: LineUser<Grant>) {
    this.#user = user
    this.#member = new LineMember(user.mailbox)
  }

  get id(): string {
    return this.#member.id
  }

  /** True if some of the waiters are in the line on the server, by its last answer. */
  get hasWaitersInLine(): boolean {
    return this.#member.waiting > 0 && this.waiters.size > 0
  }

  /** The first waiter that has not given up. One that has given up stays in `waiters` while its ask is in flight. */
  get first(): LineWaiter<Grant> | undefined {
    for (const waiter of this.waiters) if (!waiter.wait.ended) return waiter
    return undefined
  }

  join(waiter: LineWaiter<Grant>): void {
    this.waiters.add(waiter)
    this.changes.joins.add(waiter)
  }

  /** The waiter gives up. If its ask is in flight, the answer says whether a grant must be returned. */
  leave(waiter: LineWaiter<Grant>): void {
    // `read` returns its grant, or lets it leave.
    if (waiter.place === 'joining') return
    if (waiter.place === 'inside') this.changes.leaves.add(waiter)
    this.changes.joins.delete(waiter)
    this.waiters.delete(waiter)
  }

  reject(waiter: LineWaiter<Grant>, error: unknown): void {
    waiter.wait.reject(error)
    this.leave(waiter)
  }

  /** The next ask. */
  nextAsk(now: number): NumberedAsk<Grant> {
    if (this.#member.isStale(now)) this.forget()
    const member = this.#member
    const changes = this.changes.take()
    for (const waiter of changes.joins) {
      waiter.number = this.#nextNumber++
      waiter.place = 'joining'
      this.#byNumber.set(waiter.number, waiter)
    }
    const number = member.asked + 1
    const replaces = number === 1 ? member.replaces : ''
    const text = changeText(changes, ({ wait, waits }) => (waits ? wait.leftMs : 0))
    const words = [member.id, String(number), member.stamp, replaces, this.#firstInLine(), text]
    return { number, changes, ask: { member: member.id, replaces, words, copies: { latestMs: 0 } } }
  }

  /**
   * Reads the answer to an ask that was carried out. `askedAt`: its grants were made then or later. True if the server
   * counts as many of the waiters as this process.
   */
  read({ number, changes }: NumberedAsk<Grant>, answer: LineAnswer, now: number, askedAt: number): boolean {
    const member = this.#member
    const { joins, leaves, custom } = changes
    const netJoined = joins.length - leaves.length
    const expected = member.waiting + netJoined - answer.granted.length - answer.refused.length
    member.asked = number
    member.stamp = answer.stamp
    member.answeredAt = now
    member.waiting = answer.waiting
    // The server numbers newcomers one after another.
    let { ticket } = answer
    for (const waiter of joins) waiter.ticket ??= ticket++
    for (const waiter of leaves) this.#byNumber.delete(waiter.number)
    for (const waiter of joins) waiter.place = 'inside'
    // Grants come first: a caller whose change is answered may ask for more.
    this.#readGrants(answer, now, askedAt)
    for (const [i, change] of custom.entries()) change.answered(answer.changes[i])
    for (const { number, waitMs } of answer.refused) {
      const waiter = this.#removeByNumber(number)
      if (waiter === undefined) continue
      this.changes.leaves.delete(waiter)
      this.#takeOut(waiter).reject(this.#user.refusal(waiter, waitMs, answer.capacity))
    }
    // Those that have given up while the ask was in flight leave now.
    for (const waiter of joins) if (waiter.place === 'inside' && waiter.wait.ended) this.leave(waiter)
    if (answer.capacity < this.#capacity) this.#rejectLargerThan(answer.capacity)
    this.#capacity = answer.capacity
    return answer.waiting === expected
  }

  /**
   * The server does not know the member and has not carried the ask out: its returns and custom changes are sent again.
   * `rejoin` follows, which sends the joins again.
   */
  putBack({ changes }: NumberedAsk<Grant>): void {
    this.changes.putBack(changes)
  }

  /**
   * The last moment of the ask is over, and it was not carried out: the next one has its number, and its changes except
   * for waiters that have given up.
   */
  takeBack({ changes }: NumberedAsk<Grant>): void {
    this.changes.putBack(changes)
    for (const waiter of changes.leaves) this.changes.leaves.add(waiter)
    const stay = changes.joins.filter(({ wait }) => !wait.ended)
    for (const waiter of changes.joins) {
      this.#removeByNumber(waiter.number)
      if (waiter.wait.ended) this.waiters.delete(waiter)
    }
    this.changes.joinAgain(stay)
  }

  /**
   * It is unknown whether the ask was carried out. Returns are dropped, because a grant that is given back twice could
   * take another waiter's grant; custom changes may be sent twice.
   */
  abandonAsk({ changes }: NumberedAsk<Grant>): void {
    this.changes.custom = [...changes.custom, ...this.changes.custom]
  }

  /** Becomes another member. All waiters join again, with their tickets if they have any. */
  rejoin(): void {
    this.#member = new LineMember(this.#user.mailbox, this.#member.id)
    this.#byNumber.clear()
    this.changes.leaves.clear()
    this.changes.joins.clear()
    for (const waiter of [...this.waiters]) {
      waiter.place = 'outside'
      if (waiter.wait.ended) this.waiters.delete(waiter)
      else this.changes.joins.add(waiter)
    }
  }

  /** Rejects all waiters and drops all unsent changes. */
  endAll(error: unknown): void {
    for (const change of this.changes.custom.splice(0)) change.failed(error)
    for (const waiter of [...this.waiters]) {
      // So that `reject` does not wait for an answer.
      waiter.place = 'outside'
      this.reject(waiter, error)
    }
    this.changes.returns = []
    this.rejoin()
  }

  /** The server has dropped this member, or may have; it has no waiters. The next ask opens another. */
  forget(): void {
    this.#member = new LineMember(this.#user.mailbox)
  }

  #readGrants({ granted, grantedAt, lateMs }: LineAnswer, now: number, askedAt: number): void {
    const late: LineWaiter<Grant>[] = []
    for (const { number, facts } of granted) {
      const waiter = this.#removeByNumber(number)
      if (waiter === undefined) continue
      this.changes.leaves.delete(waiter)
      waiter.grant = [grantedAt, ...facts].join(' ')
      if (waiter.wait.ended) {
        this.#returnGrant(waiter)
        this.waiters.delete(waiter)
      } else if (this.#user.isLate(waiter, now - askedAt, lateMs, waiter.wasLate)) {
        waiter.wasLate = true
        this.#returnGrant(waiter, waiter)
        late.push(waiter)
      } else this.#takeOut(waiter).resolve(this.#user.grant(waiter, { facts, at: grantedAt, askedAt }))
    }
    if (late.length > 0) this.changes.joinAgain(late)
  }

  #returnGrant(waiter: LineWaiter<Grant>, again?: LineWaiter<Grant>): void {
    this.changes.returns.push({ waiter: waiterText(waiter), grant: waiter.grant, again })
  }

  #removeByNumber(number: number): LineWaiter<Grant> | undefined {
    const waiter = this.#byNumber.get(number)
    if (waiter === undefined) return undefined
    this.#byNumber.delete(number)
    waiter.place = 'outside'
    return waiter
  }

  #takeOut(waiter: LineWaiter<Grant>): LineWaiter<Grant>['wait'] {
    this.waiters.delete(waiter)
    return waiter.wait
  }

  #firstInLine(): string {
    for (const waiter of this.waiters) if (waiter.place === 'inside') return waiterText(waiter)
    return ''
  }

  #rejectLargerThan(capacity: number): void {
    for (const waiter of [...this.waiters]) {
      if (waiter.cost > capacity) this.reject(waiter, this.#user.refusal(waiter, -1, capacity))
    }
  }
}
