import type { Decision, Verdict } from './decision.js'
import type { LimiterKey } from './limiter-key.js'
import { Procession, type Walker } from './procession.js'
import { type Patience, Wait } from './shared/wait.js'
import type { Booking, Charge } from './store.js'
import { neverFits, tooFar, tooLate } from './turns.js'

/** What it takes to book a turn. */
export interface Request {
  readonly key: LimiterKey
  readonly charge: Charge
  readonly cost: number
  readonly patience: Patience
  /** Asks the store; `moved` is told when the turn comes at another time. */
  book(maxWaitMs: number, moved: (waitMs: number) => void): Promise<Booking>
  /** The decision of a turn that has come. */
  decide(booking: Booking): Decision
}

/**
 * Waiting for turns that the store has booked: one question each, one timer a key. Whoever gives up gives the turn back, and those
 * behind move up.
 */
export class BookedTurns {
  readonly #processions = new Map<string, Procession>()

  /**
   * Rejects with `TimeoutError` at once if the turn would come too late, with the signal's reason, with `CostError` if it can never
   * come, and with what `book` rejects with.
   */
  async wait({ key, charge, cost, patience, book, decide }: Request): Promise<Decision> {
    let procession: Procession | undefined
    let booking: Booking | undefined
    let walker: Walker | undefined
    let movedTo: number | undefined
    const giveBack = () => {
      if (walker) procession?.leave(walker)
      // Nobody can be told of a failure any more. The turn then passes unused, once.
      Promise.resolve(booking?.cancel()).catch(() => {})
    }
    const wait = new Wait<Decision>(patience, () => tooLate(patience), giveBack)
    try {
      booking = await book(patience.timeoutMs, waitMs => {
        movedTo = waitMs
        if (walker) procession?.move(walker, waitMs)
      })
    } catch (error) {
      wait.reject(error)
      return wait.promise
    }
    const waitMs = movedTo ?? booking.waitMs
    if (wait.over) giveBack()
    else if (booking.waitMs === Number.POSITIVE_INFINITY) wait.reject(neverFits(cost, charge.limit))
    else if (booking.waitMs > patience.timeoutMs) wait.reject(tooFar(booking.waitMs))
    else if (waitMs === 0) wait.resolve(decide(booking))
    else {
      walker = { wait, decision: decide(booking), turnAt: performance.now() + waitMs }
      // A turn that was promised in time is not lost to a late timer: from here on only the procession or the signal ends it.
      wait.resolveAt(Number.POSITIVE_INFINITY, walker.decision)
      procession = this.#processionOf(JSON.stringify(key))
      procession.join(walker)
    }
    const decision = await wait.promise
    booking.close()
    return decision
  }

  #processionOf(name: string): Procession {
    let procession = this.#processions.get(name)
    if (procession === undefined) {
      procession = new Procession(() => this.#processions.delete(name))
      this.#processions.set(name, procession)
    }
    return procession
  }
}

/** The verdict of a booking at its turn. */
export function grantOf({ verdict, waitMs }: Booking): Verdict {
  const resetAfterMs = Math.max(0, verdict.resetAfterMs - waitMs)
  return { ...verdict, allowed: true, retryAfterMs: 0, resetAfterMs, delayMs: 0 }
}
