import { keySegment } from '../redis/keys.js'

/** The keys of a shared rate, as one client of it names them: see `rate_open.lua`. */
export class RateKeys {
  readonly own: readonly string[]

  constructor(
    readonly base: string,
    readonly clientId: string,
  ) {
    this.own = [base, `${base}:clients`, `${base}:log`, `${base}:line`, ...this.of(clientId)]
  }

  /** The log and the line of one client. */
  of(clientId: string): string[] {
    const client = keySegment(clientId)
    return [`${this.base}:log:${client}`, `${this.base}:line:${client}`]
  }
}
