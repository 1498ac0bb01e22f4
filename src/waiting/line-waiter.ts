import type { Wait } from './wait.js'

/** One request that waits in a line. */
export interface LineWaiter<Grant> {
  readonly cost: number
  /** Data that only the user of the line reads: numbers without commas or the like, '' for none. */
  readonly own: string
  readonly wait: Wait<Grant>
  /** By the line's timing. */
  readonly joinedAt: number
  /** False: it takes what is free now, or nothing. */
  readonly waits: boolean
  /**
   * `outside`: will join, or has left. `asked`: joins by the ask in flight. `inside`: is in the line. `late`: was granted too late, and
   * will exchange the grant for its old place.
   */
  place: 'outside' | 'asked' | 'inside' | 'late'
  /** Its number within the member. */
  number: number
  /** Its place in the line; undefined until the server has assigned it. */
  ticket: number | undefined
  /** The time of a late grant, by the server's clock, ms. */
  grantedAt: number
  /** The last grant came late, so the next one is used however late it is. */
  wasLate: boolean
}

/** The name of a waiter within its member, for the scripts. */
export function tailOf({ number, cost, own }: LineWaiter<unknown>): string {
  return own === '' ? `${number} ${cost}` : `${number} ${cost} ${own}`
}
