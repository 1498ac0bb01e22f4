import type { Decision, Verdict } from './decision.js'
import type { LimiterKey } from './limiter-key.js'
import { Procession, type Walker } from './procession.js'
import type { Booking, Charge } from './store.js'
import { neverFits, patienceOfAsking, tooFar, tooLate } from './turns.js'
import { Alarm } from './waiting/alarm.js'
import { type Patience, Wait } from './waiting/wait.js'

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
  wait({ key, charge, cost, patience, book, decide }: Request): Promise<Decision> {
    let procession: Procession | undefined
    let booking: Booking | undefined
    let walker: Walker | undefined
    const giveBack = () => {
      retry.clear()
      if (walker) procession?.leave(walker)
      // Nobody can be told of a failure any more. The turn then passes unused, once.
      Promise.resolve(booking?.cancel()).catch(() => {})
    }
    const timedOut = () => {
      retry.clear()
      return tooLate(patience)
    }
    const wait = new Wait<Booking>(patienceOfAsking(patience), timedOut, giveBack)
    const ask = () => {
      const maxWaitMs = Math.min(patience.timeoutMs, Math.ceil(wait.leftMs))
      let movedTo: number | undefined
      const moved = (waitMs: number) => {
        movedTo = waitMs
        if (walker) procession?.move(walker, waitMs)
      }
      book(maxWaitMs, moved).then(
        booked => {
          booking = booked
          answered(booked, movedTo ?? booked.waitMs, maxWaitMs)
        },
        error => wait.reject(error),
      )
    }
    const answered = (booked: Booking, waitMs: number, maxWaitMs: number) => {
      if (wait.over) giveBack()
      else if (booked.waitMs === Number.POSITIVE_INFINITY) wait.reject(neverFits(cost, charge.limit))
      else if (booked.waitMs > maxWaitMs) wait.reject(tooFar(booked.waitMs))
      else if (booked.verdict.blocked) retry.set(performance.now() + booked.waitMs)
      else if (waitMs === 0) wait.resolve(booked)
      else {
        walker = { wait, booking: booked, turnAt: performance.now() + waitMs }
        // A turn that was promised in time is not lost to a late timer: from here on only the procession or the signal ends it.
        wait.resolveAt(Number.POSITIVE_INFINITY, booked)
        procession = this.#processionOf(JSON.stringify(key))
        procession.join(walker)
      }
    }
    // Nobody books a key that is blocked: whoever waits for the end of the block asks again then.
    const retry = new Alarm(ask)
    ask()
    return wait.promise.then(booked => {
      booked.close()
      return decide(booked)
    })
  }

  #processionOf(name: string): Procession {
    let procession = this.#processions.get(name)
    if (procession === undefined) {
      const opened = new Procession(() => {
        if (this.#processions.get(name) === opened) this.#processions.delete(name)
      })
      procession = opened
      this.#processions.set(name, opened)
    }
    return procession
  }
}

/** The verdict of a booking at its turn. */
export function grantOf({ verdict, waitMs }: Booking): Verdict {
  const resetAfterMs = Math.max(0, verdict.resetAfterMs - waitMs)
  return { ...verdict, allowed: true, retryAfterMs: 0, resetAfterMs, delayMs: 0 }
}
