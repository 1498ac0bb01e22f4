import { keySegment } from '../redis/keys.js'

/** The keys of a shared rate, for one of its clients: see `rate_open.lua`. */
export class RateKeys {
  readonly own: readonly string[]

  constructor(
    readonly base: string,
    readonly clientId: string,
  ) {
    this.own = [base, `${base}:clients`, ...this.#party(''), ...this.of(clientId)]
  }

  /** The log and the line of one client. */
  of(clientId: string): string[] {
    return this.#party(`:${keySegment(clientId)}`)
  }

  /** The record of a member of a line. */
  record(member: string): string {
    return `${this.base}:sent:${member}`
  }

  #party(end: string): string[] {
    return ['log', 'line', 'asks', 'meta'].map(kind => `${this.base}:${kind}${end}`)
  }
}
