import { type LineAnswer, lineAnswer } from './line-answer.js'
import { changeWords, LineChanges, type OwnChange } from './line-changes.js'
import { LineFlight } from './line-flight.js'
import { LineMember } from './line-member.js'
import type { LineUser } from './line-user.js'
import { type LineWaiter, tailOf } from './line-waiter.js'
import { type Ringing, realTiming, type Timing } from './timing.js'
import { type Patience, Wait } from './wait.js'

/** Leaves gather for so long: nobody waits for them, and many come together. */
const GATHER_MS = 10
/** How often to ask where nobody can tell this process to. */
const DEAF_MS = 1000

/**
 * The waiters of this process in one line of the server: one ask in flight, one timer. The server grants only to the process that asks, so
 * a message, an answer or a connection that is lost can make a waiter late, but never grants too early or twice. docs/decisions tells why.
 */
export class WaitingLine<Grant> {
  readonly #user: LineUser<Grant>
  readonly #timing: Timing
  /** In the order of asking. */
  readonly #waiters = new Set<LineWaiter<Grant>>()
  readonly #byNumber = new Map<number, LineWaiter<Grant>>()
  readonly #changes = new LineChanges<Grant>()
  readonly #turn: Ringing
  readonly #gather: Ringing
  readonly #deadline: Ringing
  #member: LineMember
  #flight: LineFlight<Grant> | undefined
  #numbers = 0
  #most = Number.POSITIVE_INFINITY
  /** Something may have changed since the ask in flight was sent. */
  #heard = false
  #scheduled = false
  #gathers = false
  #holds = false
  #closed: (() => void) | undefined

  constructor(user: LineUser<Grant>, timing: Timing = realTiming) {
    this.#user = user
    this.#timing = timing
    this.#member = new LineMember(user.address)
    this.#turn = timing.alarm(() => this.hear())
    this.#gather = timing.alarm(() => this.#schedule())
    this.#deadline = timing.alarm(() => timing.nextTurn(() => this.#expire()))
  }

  /** True if nobody waits and nothing is on its way. */
  get isIdle(): boolean {
    return this.#waiters.size === 0 && this.#flight === undefined && this.#changes.isEmpty
  }

  /** As what this process stands in the line. */
  get member(): string {
    return this.#member.id
  }

  /** The line has been deleted with all that it remembers. */
  forget(): void {
    if (this.isIdle) this.#member = new LineMember(this.#user.address)
  }

  /** How many wait. */
  get size(): number {
    return this.#waiters.size
  }

  /** Waits for a grant; the signal is not aborted yet. A timeout of 0: takes what is free, and does not wait. */
  wait(cost: number, own: string, patience: Patience): Promise<Grant> {
    const wanted = { cost, own }
    const wait = new Wait<Grant>(
      // Whoever does not wait still waits for the answer, which the deadline bounds.
      patience.timeoutMs === 0 ? { ...patience, timeoutMs: Number.POSITIVE_INFINITY } : patience,
      () => {
        this.#leave(waiter)
        return this.#user.timedOut(wanted, patience.timeoutMs)
      },
      () => this.#leave(waiter),
      this.#timing,
    )
    const waiter: LineWaiter<Grant> = {
      cost,
      own,
      wait,
      joinedAt: this.#timing.now(),
      waits: patience.timeoutMs > 0,
      place: 'outside',
      number: 0,
      ticket: undefined,
      grantedAt: 0,
      wasLate: false,
    }
    this.#waiters.add(waiter)
    this.#changes.joins.add(waiter)
    if (this.#flight !== undefined) this.#setDeadline()
    this.#schedule()
    return wait.promise
  }

  /** Carries out a change of the user's own with the next ask; the number that the script gives for it. */
  change(letter: string, words: readonly [string, string, string]): Promise<number> {
    return new Promise((answered, failed) => {
      const change: OwnChange = { letter, words, answered, failed }
      this.#changes.own.push(change)
      this.#schedule()
    })
  }

  /** Asks, if somebody waits: something may have changed for them. */
  hear(): void {
    this.#heard = true
    if (this.#waiters.size > 0) this.#schedule()
  }

  /** A connection is back: what is unanswered is sent again at once. */
  resend(): void {
    if (this.#flight === undefined) this.hear()
    else this.#flight.send()
  }

  /** Rejects all who wait. Resolves when they have left the line, or the server has not answered within the deadline. */
  async close(error: unknown): Promise<void> {
    for (const waiter of [...this.#waiters]) this.#reject(waiter, error)
    if (this.isIdle) return
    await new Promise<void>(resolve => {
      const end = this.#timing.alarm(resolve)
      end.set((this.#flight?.firstSentAt ?? this.#timing.now()) + this.#user.deadlineMs)
      this.#closed = () => {
        end.clear()
        resolve()
      }
      this.#schedule()
    })
  }

  /** Sends now what would be sent after this turn of the event loop. */
  flush(): void {
    if (this.#scheduled) this.#ask()
  }

  #schedule(): void {
    if (this.#scheduled || this.#flight !== undefined) return
    this.#scheduled = true
    this.#timing.nextTurn(() => {
      if (this.#scheduled) this.#ask()
    })
  }

  #ask(): void {
    this.#scheduled = false
    if (this.#flight !== undefined) return
    const asks = !this.#changes.isEmpty || (this.#heard && this.#waiters.size > 0)
    this.#heard = false
    this.#gathers = false
    this.#gather.clear()
    if (!asks) return
    if (this.#member.isStale(this.#timing.now())) this.#member = new LineMember(this.#user.address)
    const member = this.#member
    const changes = this.#changes.take()
    for (const waiter of changes.lates) this.#number(waiter)
    for (const waiter of changes.joins) this.#number(waiter)
    const number = member.asked + 1
    const replaces = number === 1 ? member.replaces : ''
    const words = [member.id, String(number), member.stamp, replaces, this.#firstInside()]
    words.push(...changeWords(changes, ({ wait, waits }) => (waits ? wait.leftMs : 0)))
    this.#flight = new LineFlight(
      member,
      number,
      changes,
      { member: member.id, replaces, words },
      this.#user,
      this.#timing,
      {
        answered: (reply, sentAt) => this.#answered(reply, sentAt),
        fault: error => this.#fault(error),
        givenUp: () => this.#reopen(),
      },
    )
    this.#setDeadline()
  }

  #number(waiter: LineWaiter<Grant>): void {
    waiter.number = this.#numbers++
    waiter.place = 'asked'
    this.#byNumber.set(waiter.number, waiter)
  }

  #firstInside(): string {
    for (const waiter of this.#waiters) if (waiter.place === 'inside') return tailOf(waiter)
    return ''
  }

  #answered(reply: unknown, sentAt: number): void {
    let answer: LineAnswer
    try {
      answer = lineAnswer(reply, this.#user.width)
    } catch (error) {
      this.#fault(error)
      return
    }
    if (answer.unknown) this.#reopen()
    else if (answer.word < 0) this.#endAll(this.#user.ended(answer.word))
    else this.#read(answer, sentAt)
    this.#settle()
  }

  #read(answer: LineAnswer, sentAt: number): void {
    const flight = this.#flight!
    const { member, changes, number } = flight
    this.#flight = undefined
    const now = this.#timing.now()
    member.asked = number
    member.stamp = answer.stamp
    member.answeredAt = now
    member.lifeMs = answer.lifeMs
    const expected =
      member.waiting +
      changes.joins.length +
      changes.lates.length -
      changes.leaves.length -
      answer.granted.length -
      answer.refused.length
    member.waiting = answer.waiting
    const falls = answer.most < this.#most
    this.#most = answer.most
    let { ticket } = answer
    for (const waiter of changes.joins) waiter.ticket ??= ticket++
    for (const waiter of changes.leaves) this.#byNumber.delete(waiter.number)
    for (const waiter of [...changes.joins, ...changes.lates]) waiter.place = 'inside'
    for (const [i, change] of changes.own.entries()) change.answered(answer.changes[i])
    this.#readGrants(answer, now - sentAt + answer.ageMs)
    for (const { number, waitMs } of answer.refused) {
      const waiter = this.#takeOut(number)
      if (waiter) this.#end(waiter).reject(this.#user.refusal(waiter, waitMs, answer.most))
    }
    for (const waiter of [...changes.joins, ...changes.lates]) {
      if (waiter.place === 'inside' && waiter.wait.over) this.#leaveLine(waiter)
    }
    if (falls) this.#rejectTooLarge()
    if (answer.waiting !== expected) this.#rejoin()
    const nextMs = this.#user.canHear ? answer.nextMs : Math.min(answer.nextMs, DEAF_MS)
    this.#turn.set(sentAt + nextMs)
  }

  #readGrants({ granted, at, lateMs }: LineAnswer, ageMs: number): void {
    for (const { number, facts } of granted) {
      const waiter = this.#takeOut(number)
      if (waiter === undefined) continue
      this.#changes.leaves.delete(waiter)
      waiter.grantedAt = at
      if (waiter.wait.over) {
        this.#changes.returns.push({ tail: tailOf(waiter), grantedAt: at })
        this.#waiters.delete(waiter)
      } else if (this.#user.isLate(waiter, ageMs, lateMs, waiter.wasLate)) {
        waiter.wasLate = true
        waiter.place = 'late'
        this.#changes.lates.add(waiter)
      } else this.#end(waiter).resolve(this.#user.grant(waiter, { facts, at, ageMs }))
    }
  }

  #takeOut(number: number): LineWaiter<Grant> | undefined {
    const waiter = this.#byNumber.get(number)
    if (waiter === undefined) return undefined
    this.#byNumber.delete(number)
    waiter.place = 'outside'
    return waiter
  }

  #end(waiter: LineWaiter<Grant>): Wait<Grant> {
    this.#waiters.delete(waiter)
    return waiter.wait
  }

  /** What to do after an answer. */
  #settle(): void {
    if (!this.#holds && this.#member.waiting > 0 && this.#waiters.size > 0) {
      this.#holds = true
      this.#user.hold()
    }
    if (this.#waiters.size === 0) {
      this.#turn.clear()
      if (this.#holds) this.#user.release()
      this.#holds = false
    }
    this.#setDeadline()
    if (this.#flight !== undefined) return
    if (this.isIdle) this.#closed?.()
    else if (this.#closed !== undefined) this.#schedule()
    else this.#scheduleChanges()
  }

  #scheduleChanges(): void {
    if (this.#heard && this.#waiters.size > 0) this.#schedule()
    else if (this.#changes.isEmpty) return
    else if (!this.#changes.canGather) this.#schedule()
    else if (!this.#gathers) {
      this.#gathers = true
      this.#gather.set(this.#timing.now() + GATHER_MS)
    }
  }

  /** The waiter has given up. */
  #leave(waiter: LineWaiter<Grant>): void {
    if (waiter.place === 'asked') return
    if (waiter.place === 'inside') this.#leaveLine(waiter)
    this.#changes.joins.delete(waiter)
    if (this.#changes.lates.delete(waiter)) {
      this.#changes.returns.push({ tail: tailOf(waiter), grantedAt: waiter.grantedAt })
    }
    this.#waiters.delete(waiter)
    this.#settle()
  }

  #leaveLine(waiter: LineWaiter<Grant>): void {
    this.#waiters.delete(waiter)
    this.#changes.leaves.add(waiter)
  }

  #reject(waiter: LineWaiter<Grant>, error: unknown): void {
    waiter.wait.reject(error)
    this.#leave(waiter)
  }

  #rejectTooLarge(): void {
    for (const waiter of [...this.#waiters]) {
      if (waiter.cost > this.#most) this.#reject(waiter, this.#user.refusal(waiter, -1, this.#most))
    }
  }

  /** The ask was not carried out, and the member is not known any more. */
  #reopen(): void {
    const flight = this.#flight
    this.#flight = undefined
    if (flight !== undefined) {
      this.#changes.putBack(flight.changes)
      for (const waiter of flight.changes.lates) {
        waiter.place = 'late'
        this.#changes.lates.add(waiter)
        if (waiter.wait.over) this.#leave(waiter)
      }
    }
    this.#rejoin()
    this.#settle()
  }

  /** Opens another member, as which all join again with their tickets. */
  #rejoin(): void {
    this.#member = new LineMember(this.#user.address, this.#member.id)
    this.#byNumber.clear()
    this.#changes.leaves.clear()
    this.#changes.joins.clear()
    for (const waiter of [...this.#waiters]) {
      if (waiter.place === 'late') continue
      waiter.place = 'outside'
      if (waiter.wait.over) this.#waiters.delete(waiter)
      else this.#changes.joins.add(waiter)
    }
    this.#heard = true
  }

  #fault(error: unknown): void {
    this.#endAll(this.#user.failed(error))
    this.#settle()
  }

  #endAll(error: unknown): void {
    const flight = this.#flight
    this.#flight = undefined
    for (const change of flight?.changes.own ?? []) change.failed(error)
    for (const change of this.#changes.own.splice(0)) change.failed(error)
    for (const waiter of [...this.#waiters]) {
      waiter.place = 'outside'
      this.#reject(waiter, error)
    }
    this.#changes.returns = []
    this.#rejoin()
  }

  #setDeadline(): void {
    const flight = this.#flight
    if (flight === undefined || this.#waiters.size === 0) {
      this.#deadline.clear()
      return
    }
    let first = Number.POSITIVE_INFINITY
    for (const waiter of this.#waiters) {
      if (waiter.wait.over) continue
      first = waiter.joinedAt
      break
    }
    this.#deadline.set(Math.max(first, flight.firstSentAt) + this.#user.deadlineMs)
  }

  /** The server is silent: those who have waited for it for longer than the deadline are rejected. */
  #expire(): void {
    const flight = this.#flight
    if (flight === undefined) return
    const since = this.#timing.now() - this.#user.deadlineMs
    if (flight.firstSentAt <= since) {
      const error = this.#user.failed(flight.cause)
      for (const waiter of [...this.#waiters]) if (waiter.joinedAt <= since) this.#reject(waiter, error)
    }
    this.#setDeadline()
  }
}
