import { CostError, NotInitializedError } from '../core/errors.js'

/** Words of the scripts in the place of a wait: more than the rate, no rate is set, ask again, not in the line, nobody can know. */
export const NEVER = -1
export const UNSET = -2
export const AGAIN = -3
const PASSED = -4
export const UNKNOWN = -5

/** What an acquire was answered. */
export interface Booked {
  /** The wait in ms, or a word. */
  readonly waitMs: number
  readonly rate: number
  /** Changes whenever those who waited were sent away. */
  readonly epoch: number
}

/** What somebody has booked, and may give back. */
export interface Booking {
  readonly id: string
  readonly permits: number
  /** As it was when it was booked, or later when it was still in the line. */
  readonly epoch: number
}

/** How the line stands at one moment. */
export interface Standing {
  readonly rate: number
  readonly epoch: number
  /** Of those asked for, in ms, or a word. */
  readonly waits: readonly number[]
}

/** What a line asks of the server. */
export interface RateQuestions {
  /** What errors call the limiter, like `SharedRateLimiter "mail"`. */
  readonly subject: string
  /** Takes or books. `late` is told of an answer that nobody waits for any more. */
  book(id: string, permits: number, maxWaitMs: number, late: (booked: Booked) => void): Promise<Booked>
  /** Gives a booking back. Never rejects: nobody can be told any more. Where it fails, the turn passes unused, once. */
  cancel(booking: Booking): Promise<void>
  /** Undefined where no rate is set. */
  look(ids: readonly string[]): Promise<Standing | undefined>
}

/** How it stands with the waiter that was asked for in the i-th place; its own are `permits`, and `epoch` when it booked. */
export function wordFor(
  { permits, epoch }: { readonly permits: number; readonly epoch: number },
  standing: Standing | undefined,
  i: number,
): number {
  if (standing === undefined) return UNSET
  if (standing.waits[i] !== PASSED) return standing.waits[i]
  if (epoch !== standing.epoch) return AGAIN
  // Its turn has come, though nobody heard of it here.
  return permits > standing.rate ? NEVER : 0
}

export function tooMany(subject: string, permits: number, rate?: number): CostError {
  const most = rate === undefined ? 'the rate' : `the rate, ${rate}`
  return new CostError(`${subject}: permits ${permits}: more than ${most}, waiting would not help`)
}

export function unset(subject: string): NotInitializedError {
  return new NotInitializedError(`${subject}: no rate is set; set one with trySetRate({ rate: 10, interval: '1s' })`)
}
