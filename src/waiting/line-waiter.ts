import type { Outage } from './line-user.js'
import type { Wait } from './wait.js'

/** One request that waits in a line. */
export interface LineWaiter<Grant> {
  readonly cost: number
  /** Data that only the user of the line reads, without commas and newlines; '' for none. */
  readonly own: string
  readonly wait: Wait<Grant>
  /** By the line's timing. */
  readonly joinedAt: number
  /** False: it takes what is free now, or nothing. */
  readonly waits: boolean
  /**
   * `outside`: will join, or has left. `joining`: its ask is in flight. `inside`: is in the line. `late`: was granted too late, and
   * will exchange the grant for its old place.
   */
  place: 'outside' | 'joining' | 'inside' | 'late'
  /** Its number within the member. */
  number: number
  /** Its place in the line; undefined until the server has assigned it. */
  ticket: number | undefined
  /** Its last grant as the scripts read it, "at fact fact": the moment by the server's clock, ms, then the facts of the user's script. */
  grant: string
  /** The last grant came late, so the next one is used however late it is. */
  wasLate: boolean
  /** What it does while the server fails. */
  readonly outage: Outage | undefined
  /** The server fails, and it waits elsewhere. */
  isAway: boolean
}

/** A waiter as the scripts read it: "number cost own". */
export function waiterText({ number, cost, own }: LineWaiter<unknown>): string {
  return own === '' ? `${number} ${cost}` : `${number} ${cost} ${own}`
}
