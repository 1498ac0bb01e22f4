import { RetryDelay, type Ringing, type Timing } from '../../limiter/core/alarms.js'
import { AskedTooLate } from '../../redis/timely-scripts.js'
import type { NumberedAsk } from './line-membership.js'
import type { LineUser } from './line-user.js'

/** Repeats an ask that no error has ended: its answer may be lost. */
const UNANSWERED_MS = 1000
/**
 * How long an ask may be sent again: the server remembers a member for 60 s, so no copy comes after its record. After
 * its last moment it is sent to learn whether it was carried out before.
 */
const REMEMBERED_MS = 50_000

interface FlightEnd {
  /** `sentAt` belongs to the copy of the ask that was answered. */
  answered(reply: unknown, sentAt: number): void
  /** Called for an error that repeating would not cure. */
  fault(error: unknown): void
  /** The last moment of the ask is over, and it was not carried out. */
  tooLate(): void
  /** The ask got no answer, and must not be sent again. */
  givenUp(): void
  /** The client could not send it, or has failed it: it is sent again later, or when the client is ready. */
  delayed(): void
}

/** The one ask of a member in flight. It is sent again unchanged until it is answered. */
export class LineFlight<Grant> {
  readonly firstSentAt: number
  /**
   * When the waiters that joined with it have been rejected: their process may be gone then, and nobody would use what
   * they are granted.
   */
  readonly #lastMoment: number
  /** The last reason for a missing answer, if known. */
  cause: unknown
  readonly #retryDelay = new RetryDelay()
  #ended = false

  constructor(
    readonly carried: NumberedAsk<Grant>,
    readonly user: LineUser<Grant>,
    readonly timing: Timing,
    /** Rings for the flight in progress; shared by successive flights, so that their answers need not clear it. */
    readonly retry: Ringing,
    readonly end: FlightEnd,
  ) {
    this.firstSentAt = timing.now()
    this.#lastMoment = this.firstSentAt + Math.max(user.deadlineMs, UNANSWERED_MS)
    this.send()
  }

  /** Sends a copy now. */
  send(): void {
    if (this.#ended) return
    const sentAt = this.timing.now()
    if (sentAt - this.firstSentAt > REMEMBERED_MS) {
      this.#ended = true
      this.end.givenUp()
      return
    }
    // This also covers a client that is not ready, which may never report that it is.
    this.retry.set(sentAt + UNANSWERED_MS)
    if (!this.user.ready()) {
      this.cause ??= this.user.failing?.() ?? new Error('the Redis client is not connected')
      this.end.delayed()
      return
    }
    this.user.send(this.carried.ask, this.#lastMoment).then(
      reply => {
        if (this.#ended) return
        this.#ended = true
        this.end.answered(reply, sentAt)
      },
      error => this.#failed(error),
    )
  }

  #failed(error: unknown): void {
    if (this.#ended) return
    if (error instanceof AskedTooLate) {
      this.#ended = true
      this.end.tooLate()
      return
    }
    if (this.user.isFault(error)) {
      this.#ended = true
      this.end.fault(error)
      return
    }
    this.cause = error
    this.retry.set(this.timing.now() + this.#retryDelay.next())
    this.end.delayed()
  }
}
