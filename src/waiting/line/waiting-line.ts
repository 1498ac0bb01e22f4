import { type Ringing, realTiming, type Timing } from '../../limiter/core/alarms.js'
import { type Patience, Wait } from '../../limiter/core/wait.js'
import type { Outage } from '../../limiter/store-lines.js'
import { type LineAnswer, lineAnswer } from './line-answer.js'
import { LineFlight } from './line-flight.js'
import { type CustomChange, LineMembership, type LineWaiter } from './line-membership.js'
import type { LineUser } from './line-user.js'

/** How long to collect messages of waiters that leave: they are not urgent. */
const GATHER_MS = 10
/** close() waits no longer than this for the server's answer. */
const CLOSE_MS = 1000
/** How often to ask the server when this process has no subscription. */
const UNSUBSCRIBED_ASK_MS = 1000

/**
 * The waiters of this process in one waiting line on the server: one ask in flight, one timer. The server grants only
 * in answers to asks, so a lost message, answer or connection can delay a waiter, but never causes an early or double
 * grant.
 */
export class WaitingLine<Grant> {
  readonly #user: LineUser<Grant>
  readonly #timing: Timing
  readonly #membership: LineMembership<Grant>
  readonly #nextAskAlarm: Ringing
  readonly #gatherAlarm: Ringing
  readonly #deadlineAlarm: Ringing
  /** Whether `#deadlineAlarm` is set. */
  #hasDeadline = false
  readonly #retryAlarm: Ringing
  #flight: LineFlight<Grant> | undefined
  /** A wake-up came since the ask in flight was sent. */
  #heard = false
  #scheduled = false
  #isGathering = false
  #isListening = false
  #forgetReady: (() => void) | undefined
  #resolveClose: (() => void) | undefined
  /** Why the server fails, while those waiters that can wait elsewhere do so. */
  #outage: unknown

  constructor(user: LineUser<Grant>, timing: Timing = realTiming) {
    this.#user = user
    this.#timing = timing
    this.#membership = new LineMembership(user)
    this.#nextAskAlarm = timing.alarm(() => this.hear())
    this.#gatherAlarm = timing.alarm(() => this.#schedule())
    // In the next turn: after a pause of the process, answers that have already been received are read first.
    this.#deadlineAlarm = timing.alarm(() => timing.nextTurn(() => this.#rejectExpired()))
    this.#retryAlarm = timing.alarm(() => {
      this.#flight?.send()
      // The user's deadline may have changed since.
      this.#setDeadline()
    }, false)
  }

  /** True if there are no waiters and no ask is in flight. */
  get isIdle(): boolean {
    return this.size === 0 && this.#flight === undefined && this.#membership.changes.isEmpty
  }

  /** True while waiters of this process are in the line on the server. */
  get hasWaitersInLine(): boolean {
    return this.#isListening
  }

  /** This process's member id in the line. */
  get member(): string {
    return this.#membership.id
  }

  /** The number of waiters. */
  get size(): number {
    return this.#membership.waiters.size
  }

  /**
   * Waits for a grant; the signal must not be aborted yet. A timeout of 0: takes what is free, and does not wait.
   * `outage`: what it does while the server fails.
   */
  wait(cost: number, details: string, patience: Patience, outage?: Outage): Promise<Grant> {
    const wait = new Wait<Grant>(
      // A caller that does not wait for a grant still waits for the answer, up to the deadline.
      patience.timeoutMs === 0 ? { ...patience, timeoutMs: Number.POSITIVE_INFINITY } : patience,
      () => {
        this.#leave(waiter)
        return this.#user.timedOut({ cost, details }, patience.timeoutMs)
      },
      () => this.#leave(waiter),
      this.#timing,
    )
    const waiter: LineWaiter<Grant> = {
      cost,
      details,
      wait,
      joinedAt: this.#timing.now(),
      waits: patience.timeoutMs > 0,
      place: 'outside',
      number: 0,
      ticket: undefined,
      grant: '',
      wasLate: false,
      outage,
      isAway: false,
    }
    this.#membership.join(waiter)
    // The deadline of an earlier waiter comes first.
    if (this.#flight !== undefined && !this.#hasDeadline) this.#setDeadline()
    this.#schedule()
    const failing = outage && (this.#outage ?? this.#user.failing?.())
    if (failing !== undefined) this.#sendAway(failing)
    return wait.promise
  }

  /**
   * Sends a change that only the user of the line defines, with the next ask. Resolves to the number that the script
   * returns. For example, the semaphore ends a lease with the letter 'e' and the words `[id, token, '']`, and gets 1,
   * or 0 if the lease had ended before.
   */
  change(letter: string, words: readonly [string, string, string]): Promise<number> {
    return new Promise((answered, failed) => this.send({ letter, words, answered, failed }))
  }

  /** As `change`, without a promise. */
  send(change: CustomChange): void {
    this.#membership.changes.custom.push(change)
    this.#schedule()
  }

  /** A wake-up: asks if there are waiters, because they may fit now. */
  hear(): void {
    this.#heard = true
    if (this.size > 0) this.#schedule()
  }

  /** The connection is back: unanswered asks are sent again at once. */
  resend(): void {
    if (this.#flight === undefined) this.hear()
    else this.#flight.send()
  }

  /** Sends collected changes now, instead of at the end of this turn of the event loop or later. */
  flush(): void {
    if (this.#scheduled || this.#isGathering) this.#ask()
  }

  /** The line was deleted on the server with all its members. */
  forget(): void {
    if (this.isIdle) this.#membership.forget()
  }

  /** An idle line is not used any more: ends its timers. */
  end(): void {
    for (const alarm of [this.#nextAskAlarm, this.#gatherAlarm, this.#deadlineAlarm, this.#retryAlarm]) alarm.clear()
  }

  /**
   * Rejects all waiters. Resolves when they have left the line: at once if the client is not connected, and otherwise
   * after one second at most. If the server does not receive the message, it drops this member when its record expires.
   */
  async close(error: unknown): Promise<void> {
    for (const waiter of [...this.#membership.waiters]) this.#membership.reject(waiter, error)
    this.#doNext()
    if (this.isIdle || !this.#user.ready()) return
    await new Promise<void>(resolve => {
      const end = this.#timing.alarm(resolve)
      end.set(this.#timing.now() + CLOSE_MS)
      const before = this.#resolveClose
      this.#resolveClose = () => {
        end.clear()
        resolve()
        before?.()
      }
      this.#schedule()
    })
  }

  #leave(waiter: LineWaiter<Grant>): void {
    this.#membership.leave(waiter)
    this.#doNext()
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
    const asks = !this.#membership.changes.isEmpty || (this.#heard && this.size > 0)
    this.#heard = false
    this.#isGathering = false
    this.#gatherAlarm.clear()
    if (!asks) return
    const ask = this.#membership.nextAsk(this.#timing.now())
    this.#flight = new LineFlight(ask, this.#user, this.#timing, this.#retryAlarm, {
      answered: (reply, sentAt) => this.#answered(reply, sentAt),
      fault: error => this.#endAll(this.#user.failed(error)),
      tooLate: () => this.#takeBack(),
      givenUp: () => this.#giveUp(),
      delayed: () => this.#sendWhenReady(),
    })
    this.#setDeadline()
  }

  /** The server fails: its waiters keep their places here, and wait elsewhere until it answers. */
  #sendAway(error: unknown): void {
    this.#outage = error
    for (const waiter of this.#membership.waiters) {
      if (waiter.isAway || waiter.outage === undefined || waiter.wait.ended) continue
      waiter.isAway = true
      waiter.outage.begins(error, reason => {
        if (waiter.wait.ended) return
        waiter.wait.reject(reason)
        this.#leave(waiter)
      })
    }
  }

  /** The server answers again. */
  #bringBack(): void {
    if (this.#outage === undefined) return
    this.#outage = undefined
    for (const waiter of this.#membership.waiters) {
      if (!waiter.isAway) continue
      waiter.isAway = false
      waiter.outage?.ends()
    }
  }

  #answered(reply: unknown, sentAt: number): void {
    let answer: LineAnswer
    try {
      answer = lineAnswer(reply, this.#user.width)
    } catch (error) {
      this.#endAll(this.#user.failed(error))
      return
    }
    this.#bringBack()
    if (answer.code === 0) this.#rejoin()
    // A code below 0 comes from the user's own script, for example if no rate is set: no waiter in this line can be
    // granted.
    else if (answer.code < 0) this.#endAll(this.#user.ended(answer.code))
    else this.#read(answer, sentAt)
  }

  #read(answer: LineAnswer, sentAt: number): void {
    const { carried } = this.#flight!
    this.#flight = undefined
    const now = this.#timing.now()
    const asExpected = this.#membership.read(carried, answer, now, sentAt - answer.ageMs)
    const nextMs = this.#user.mailbox.canHear ? answer.nextMs : Math.min(answer.nextMs, UNSUBSCRIBED_ASK_MS)
    this.#nextAskAlarm.set(sentAt + nextMs)
    if (asExpected) this.#doNext()
    else this.#rejoin()
  }

  /** The ask was not carried out, and never will be: asks anew for what still matters. */
  #takeBack(): void {
    const { carried } = this.#flight!
    this.#flight = undefined
    this.#membership.takeBack(carried)
    this.#heard = true
    this.#doNext()
  }

  /** It is unknown whether the ask ran, so changes that must not happen twice are dropped. */
  #giveUp(): void {
    const { carried } = this.#flight!
    this.#flight = undefined
    this.#membership.abandonAsk(carried)
    this.#rejoin()
  }

  /** The server does not know this member, or knows it in another state; join again. */
  #rejoin(): void {
    if (this.#flight !== undefined) this.#membership.putBack(this.#flight.carried)
    this.#flight = undefined
    this.#membership.rejoin()
    this.#heard = true
    this.#doNext()
  }

  #endAll(error: unknown): void {
    for (const change of this.#flight?.carried.changes.custom ?? []) change.failed(error)
    this.#flight = undefined
    this.#membership.endAll(error)
    this.#doNext()
  }

  /** Acts on the new state: listens or not, sets the alarms, sends an ask, ends close(). */
  #doNext(): void {
    if (!this.#isListening && this.#membership.hasWaitersInLine) {
      this.#isListening = true
      this.#user.mailbox.hold()
      this.#user.begins?.()
      this.#sendWhenReady()
    }
    if (this.size === 0) {
      this.#nextAskAlarm.clear()
      this.#deadlineAlarm.clear()
      this.#hasDeadline = false
      if (this.#isListening) this.#user.mailbox.release()
      this.#isListening = false
    }
    if (this.isIdle) {
      this.#forgetReady?.()
      this.#forgetReady = undefined
    }
    if (this.#flight !== undefined) return
    const { changes } = this.#membership
    if (this.isIdle) this.#resolveClose?.()
    else if (this.#resolveClose !== undefined || (this.#heard && this.size > 0)) this.#schedule()
    else if (changes.isEmpty) return
    else if (!changes.canGather) this.#schedule()
    else if (!this.#isGathering) {
      this.#isGathering = true
      this.#gatherAlarm.set(this.#timing.now() + GATHER_MS)
    }
  }

  #sendWhenReady(): void {
    this.#forgetReady ??= this.#user.onReady?.(() => this.resend())
  }

  /**
   * Sets the alarm to the moment when the first waiter has waited for an answer for too long; clears it if no waiter
   * waits for an answer.
   */
  #setDeadline(): void {
    const flight = this.#flight
    const first = this.#membership.first
    this.#hasDeadline = first !== undefined
    if (flight === undefined || first === undefined || this.#outage !== undefined) this.#deadlineAlarm.clear()
    else {
      const endsAt = Math.max(first.joinedAt, flight.firstSentAt) + this.#user.deadlineMs
      this.#deadlineAlarm.set(Math.max(endsAt, this.#user.connectsUntil?.() ?? 0))
    }
  }

  /** Rejects the waiters that have waited for an answer for longer than the deadline. */
  #rejectExpired(): void {
    const flight = this.#flight
    const now = this.#timing.now()
    const since = now - this.#user.deadlineMs
    const connects = now < (this.#user.connectsUntil?.() ?? 0)
    if (flight !== undefined && flight.firstSentAt <= since && !connects) {
      const late = [...this.#membership.waiters].filter(({ joinedAt, wait }) => joinedAt <= since && !wait.ended)
      const error = late.length > 0 && this.#user.failed(flight.cause)
      for (const waiter of late) if (waiter.outage === undefined) this.#membership.reject(waiter, error)
      if (late.some(({ outage }) => outage !== undefined)) this.#sendAway(error)
    }
    this.#setDeadline()
    this.#doNext()
  }
}
