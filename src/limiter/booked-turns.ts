import type { Decision, Verdict } from '../core/decision.js'
import type { Booking, Charge } from '../stores/store.js'
import { Alarm } from '../waiting/alarm.js'
import { type Patience, Wait } from '../waiting/wait.js'
import type { LimiterKey } from './key.js'
import { type QueuedTurn, TurnQueue } from './turn-queue.js'
import { neverFits, patienceOfAsking, tooFar, tooLate } from './turns.js'

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

/** Those who wait for the end of a block, in their order. */
interface Held {
  readonly asks: Set<() => void>
  readonly alarm: Alarm
}

/**
 * Waiting for turns that the store has booked: one question each, one timer a key. Whoever gives up gives the turn back, and those
 * behind move up. A key that is blocked cannot be booked: those who wait for it ask again, in their order, when the block is over.
 */
export class BookedTurns {
  readonly #processions = new Map<string, TurnQueue>()
  readonly #held = new Map<string, Held>()

  /**
   * Rejects with `TimeoutError` at once if the turn would come too late, with the signal's reason, with `CostError` if it can never
   * come, and with what `book` rejects with.
   */
  wait({ key, charge, cost, patience, book, decide }: Request): Promise<Decision> {
    const name = nameOf(key)
    let procession: TurnQueue | undefined
    let booking: Booking | undefined
    let walker: QueuedTurn | undefined
    const giveBack = () => {
      this.#letGo(name, ask)
      if (walker) procession?.leave(walker)
      // Nobody can be told of a failure any more. The turn then passes unused, once.
      Promise.resolve(booking?.cancel()).catch(() => {})
    }
    const timedOut = () => {
      this.#letGo(name, ask)
      return tooLate(patience)
    }
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
      else if (booked.blockedMs > 0) this.#hold(name, ask, booked.blockedMs)
      else if (waitMs === 0 && !this.#processions.has(name)) wait.resolve(booked)
      else {
        walker = { turnAt: performance.now() + waitMs, arrive: () => wait.resolve(booked) }
        // A turn that was promised in time is not lost to a late timer: from here on only the procession or the signal ends it.
        wait.resolveAt(Number.POSITIVE_INFINITY, booked)
        procession = this.#processionOf(name)
        procession.join(walker)
      }
    }
    const wait = new Wait<Booking>(patienceOfAsking(patience), timedOut, giveBack)
    if (!wait.over) ask()
    return wait.promise.then(booked => {
      booked.close()
      return decide(booked)
    })
  }

  /** The key may have been unblocked: those whom a block holds ask at once. */
  wake(key: LimiterKey): void {
    if (this.#held.size > 0) this.#ask(nameOf(key))
  }

  #hold(name: string, ask: () => void, blockedMs: number): void {
    let held = this.#held.get(name)
    if (held === undefined) {
      held = { asks: new Set(), alarm: new Alarm(() => this.#ask(name)) }
      this.#held.set(name, held)
    }
    held.asks.add(ask)
    // The last word counts: a later block replaces an earlier one.
    held.alarm.set(performance.now() + blockedMs)
  }

  #ask(name: string): void {
    const held = this.#held.get(name)
    if (held === undefined) return
    this.#held.delete(name)
    held.alarm.clear()
    for (const ask of held.asks) ask()
  }

  #letGo(name: string, ask: () => void): void {
    const held = this.#held.get(name)
    if (held === undefined || !held.asks.delete(ask) || held.asks.size > 0) return
    held.alarm.clear()
    this.#held.delete(name)
  }

  #processionOf(name: string): TurnQueue {
    let procession = this.#processions.get(name)
    if (procession === undefined) {
      const opened = new TurnQueue(() => {
        if (this.#processions.get(name) === opened) this.#processions.delete(name)
      })
      procession = opened
      this.#processions.set(name, opened)
    }
    return procession
  }
}

function nameOf(key: LimiterKey): string {
  return JSON.stringify(key)
}

/** The verdict of a booking at its turn. */
export function grantOf({ verdict, waitMs }: Booking): Verdict {
  const resetAfterMs = Math.max(0, verdict.resetAfterMs - waitMs)
  return { ...verdict, allowed: true, retryAfterMs: 0, resetAfterMs, delayMs: 0 }
}
