import type { FiringAlert, Happening, ProcessRecord, ToldEvent } from '../records.js'

/** Alerts and outages are told every 10 s while they last. */
const GAP_MS = 30_000
const NEVER_AGAIN = -1

/** What happens in a process, for the page of events: its start, outages, alerts. */
export class Happenings {
  #started = false
  #degraded = 0
  #outage: { readonly since: number; readonly reason: string; readonly until?: number } | undefined

  constructor(readonly process: Pick<ProcessRecord, 'service' | 'version' | 'startedAt'>) {}

  /** A decision was made without Redis. */
  degraded(): void {
    this.#degraded++
  }

  outageBegan(since: number, reason: string): void {
    this.#outage = { since, reason }
  }

  outageEnded(until: number): void {
    if (this.#outage !== undefined) this.#outage = { ...this.#outage, until }
  }

  /** What is to be told now. */
  take(firing: readonly FiringAlert[], now: number): ToldEvent[] {
    const told: ToldEvent[] = []
    const { service, version, startedAt } = this.process
    if (!this.#started && version !== '') {
      // Only the first process of a version is an event: of the others the server knows it.
      const start = eventOf({ kind: 'deploy', service, version }, startedAt, startedAt)
      told.push({ ...start, chain: `deploy ${service}`, gapMs: NEVER_AGAIN })
    }
    this.#started = true
    if (this.#outage !== undefined) {
      const { since, reason, until } = this.#outage
      told.push({ ...eventOf({ kind: 'outage', service }, since, until ?? now), count: this.#degraded, reason })
      if (until !== undefined) this.#outage = undefined
    }
    this.#degraded = 0
    for (const { rule, when, subject, value, since } of firing) {
      // An open breaker is an outage.
      if (when === 'breaker-open') continue
      told.push({ ...eventOf({ kind: 'alert', rule, when, subject }, since, now), value })
    }
    return told
  }
}

function eventOf(what: Happening, from: number, to: number): ToldEvent {
  const id = JSON.stringify(what)
  return { chain: id, id, from, to, gapMs: GAP_MS, count: 0, value: 0, reason: '' }
}
