import type { Wait } from './wait.js'

/** One request that waits in a line. */
export interface LineWaiter<Grant> {
  readonly cost: number
  /** What only the user of the line reads of it: numbers without commas or the like, '' for none. */
  readonly own: string
  readonly wait: Wait<Grant>
  /** By the line's timing. */
  readonly joinedAt: number
  /** False: it takes what is free now, or nothing. */
  readonly waits: boolean
  /**
   * `outside`: is to join, or has left. `asked`: joins by the ask in flight. `inside`: stands in the line. `late`: was granted too late, and
   * is to exchange that for its old place.
   */
  place: 'outside' | 'asked' | 'inside' | 'late'
  /** Its number within the member. */
  number: number
  /** Its place in the line; undefined until it has been told. */
  ticket: number | undefined
  /** Of a late grant: its moment, by the server's clock, ms. */
  grantedAt: number
  /** The last grant came late, so the next one is used, however late it is. */
  wasLate: boolean
}

/** How the scripts name a waiter within its member. */
export function tailOf({ number, cost, own }: LineWaiter<unknown>): string {
  return own === '' ? `${number} ${cost}` : `${number} ${cost} ${own}`
}
