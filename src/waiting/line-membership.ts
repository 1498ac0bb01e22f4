import type { LineAnswer } from './line-answer.js'
import { changeText, type LineChangeSet, LineChanges } from './line-changes.js'
import { LineMember } from './line-member.js'
import type { LineAsk, LineUser } from './line-user.js'
import { type LineWaiter, tailOf } from './line-waiter.js'

/** An ask and its content. */
export interface NumberedAsk<Grant> {
  readonly number: number
  readonly changes: LineChangeSet<Grant>
  readonly ask: LineAsk
}

/** The waiters of this process, what the server knows of them, and the changes that it was not told yet. It has no clock and sends nothing. */
export class LineMembership<Grant> {
  readonly changes = new LineChanges<Grant>()
  /** In the order of their requests. */
  readonly waiters = new Set<LineWaiter<Grant>>()
  readonly #user: LineUser<Grant>
  readonly #byNumber = new Map<number, LineWaiter<Grant>>()
  #member: LineMember
  #numbers = 0
  #most = Number.POSITIVE_INFINITY

  constructor(user: LineUser<Grant>) {
    this.#user = user
    this.#member = new LineMember(user.address)
  }

  get id(): string {
    return this.#member.id
  }

  /** True if some of the waiters are in the line on the server. */
  get stands(): boolean {
    return this.#member.waiting > 0 && this.waiters.size > 0
  }

  /** The first waiter that has not given up. Those that have stay in `waiters` until the answer tells what became of them. */
  get first(): LineWaiter<Grant> | undefined {
    for (const waiter of this.waiters) if (!waiter.wait.over) return waiter
    return undefined
  }

  join(waiter: LineWaiter<Grant>): void {
    this.waiters.add(waiter)
    this.changes.joins.add(waiter)
  }

  /** The waiter gives up. If an ask in flight carries it, the answer tells what must be given back. */
  leave(waiter: LineWaiter<Grant>): void {
    if (waiter.place === 'asked') return
    if (waiter.place === 'inside') this.changes.leaves.add(waiter)
    this.changes.joins.delete(waiter)
    if (this.changes.lates.delete(waiter)) this.#giveBack(waiter)
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
    for (const waiter of [...changes.lates, ...changes.joins]) {
      waiter.number = this.#numbers++
      waiter.place = 'asked'
      this.#byNumber.set(waiter.number, waiter)
    }
    const number = member.asked + 1
    const replaces = number === 1 ? member.replaces : ''
    const text = changeText(changes, ({ wait, waits }) => (waits ? wait.leftMs : 0))
    const words = [member.id, String(number), member.stamp, replaces, this.#firstInside(), text]
    return { number, changes, ask: { member: member.id, replaces, words } }
  }

  /** Reads the answer to an ask that was carried out. `ageMs`: the greatest age of its grants. True if the answer is consistent. */
  read({ number, changes }: NumberedAsk<Grant>, answer: LineAnswer, now: number, ageMs: number): boolean {
    const member = this.#member
    const { joins, lates, leaves, own } = changes
    const moved = joins.length + lates.length - leaves.length
    const expected = member.waiting + moved - answer.granted.length - answer.refused.length
    member.asked = number
    member.stamp = answer.stamp
    member.answeredAt = now
    member.lifeMs = answer.lifeMs
    member.waiting = answer.waiting
    let { ticket } = answer
    for (const waiter of joins) waiter.ticket ??= ticket++
    for (const waiter of leaves) this.#byNumber.delete(waiter.number)
    for (const waiter of [...joins, ...lates]) waiter.place = 'inside'
    // Grants come first: a caller whose change is answered may ask for more.
    this.#readGrants(answer, ageMs)
    for (const [i, change] of own.entries()) change.answered(answer.changes[i])
    for (const { number, waitMs } of answer.refused) {
      const waiter = this.#takeOut(number)
      if (waiter === undefined) continue
      this.changes.leaves.delete(waiter)
      this.#end(waiter).reject(this.#user.refusal(waiter, waitMs, answer.most))
    }
    for (const waiter of [...joins, ...lates]) if (waiter.place === 'inside' && waiter.wait.over) this.leave(waiter)
    if (answer.most < this.#most) this.#rejectLargerThan(answer.most)
    this.#most = answer.most
    return answer.waiting === expected
  }

  /** The ask was not carried out, and will not be: its changes must be sent again. */
  putBack({ changes }: NumberedAsk<Grant>): void {
    this.changes.putBack(changes)
    for (const waiter of changes.lates) {
      waiter.place = 'late'
      this.changes.lates.add(waiter)
      if (waiter.wait.over) this.leave(waiter)
    }
  }

  /** It is unknown whether the ask was carried out. Returns are dropped, because giving a grant back twice could take another waiter's; own changes may be sent twice. */
  giveUp({ changes }: NumberedAsk<Grant>): void {
    this.changes.own = [...changes.own, ...this.changes.own]
  }

  /** Becomes another member; all waiters join again with their tickets. */
  rejoin(): void {
    this.#member = new LineMember(this.#user.address, this.#member.id)
    this.#byNumber.clear()
    this.changes.leaves.clear()
    this.changes.joins.clear()
    for (const waiter of [...this.waiters]) {
      if (waiter.place === 'late') continue
      waiter.place = 'outside'
      if (waiter.wait.over) this.waiters.delete(waiter)
      else this.changes.joins.add(waiter)
    }
  }

  /** Rejects all waiters and drops all unsent changes. */
  endAll(error: unknown): void {
    for (const change of this.changes.own.splice(0)) change.failed(error)
    for (const waiter of [...this.waiters]) {
      waiter.place = 'outside'
      this.reject(waiter, error)
    }
    this.changes.returns = []
    this.rejoin()
  }

  /** The server has dropped this member, which has no waiters: the next ask opens another. */
  forget(): void {
    this.#member = new LineMember(this.#user.address)
  }

  #readGrants({ granted, at, lateMs }: LineAnswer, ageMs: number): void {
    for (const { number, facts } of granted) {
      const waiter = this.#takeOut(number)
      if (waiter === undefined) continue
      this.changes.leaves.delete(waiter)
      waiter.grantedAt = at
      if (waiter.wait.over) {
        this.#giveBack(waiter)
        this.waiters.delete(waiter)
      } else if (this.#user.isLate(waiter, ageMs, lateMs, waiter.wasLate)) {
        waiter.wasLate = true
        waiter.place = 'late'
        this.changes.lates.add(waiter)
      } else this.#end(waiter).resolve(this.#user.grant(waiter, { facts, at, ageMs }))
    }
  }

  #giveBack(waiter: LineWaiter<Grant>): void {
    this.changes.returns.push({ tail: tailOf(waiter), grantedAt: waiter.grantedAt })
  }

  #takeOut(number: number): LineWaiter<Grant> | undefined {
    const waiter = this.#byNumber.get(number)
    if (waiter === undefined) return undefined
    this.#byNumber.delete(number)
    waiter.place = 'outside'
    return waiter
  }

  #end(waiter: LineWaiter<Grant>): LineWaiter<Grant>['wait'] {
    this.waiters.delete(waiter)
    return waiter.wait
  }

  #firstInside(): string {
    for (const waiter of this.waiters) if (waiter.place === 'inside') return tailOf(waiter)
    return ''
  }

  #rejectLargerThan(most: number): void {
    for (const waiter of [...this.waiters]) {
      if (waiter.cost > most) this.reject(waiter, this.#user.refusal(waiter, -1, most))
    }
  }
}
