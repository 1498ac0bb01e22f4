import { getOrMake } from '../../core/get-or-make.js'
import type { LeaseInfo } from '../../semaphore/semaphore.js'
import { type HoldRow, leaseReference } from '../process-details.js'
import type { HolderName, HolderView } from '../view.js'
import type { Process, Reports } from './reports.js'

/** What a process tells of one of its holds, and which process it is. */
interface Told {
  readonly process: Process
  readonly hold: HoldRow
}

/** What all processes tell of one object: its holds, and how many more there are. */
interface Holds {
  readonly told: readonly Told[]
  readonly more: number
}

/** Objects whose leases are remembered. */
const MOST_OBJECTS = 200
/** Most holders of one object on a page. */
const MOST_HOLDERS = 50
const USUAL_EVERY_MS = 2000
const LONGEST_EVERY_MS = 10_000
/** Details of many processes are read only every ten seconds. */
const SLACK_MS = 2000
const SLACK_OF_MANY_MS = 12_000
const MANY = 20
const NO_HOLDS: Holds = { told: [], more: 0 }

/**
 * Says who holds a lease, and since when. A lease that was taken directly has no fact in Redis, but the process that holds it knows both, and reports
 * them: see `RecentActivity`.
 */
export class HolderNames {
  /** Semaphore → lease → when it was first seen here, for leases of which nothing else tells their age. */
  readonly #seen = new Map<string, ReadonlyMap<string, number>>()

  /** By object, of one reading. */
  #holds: { readonly number: number; readonly all: ReadonlyMap<string, Holds> } | undefined

  constructor(readonly reports: Reports) {}

  /** The leases of a semaphore as Redis lists them, with their holders. `facts`: since when those are held of which Redis knows it. */
  leases(name: string, leases: readonly LeaseInfo[], facts: ReadonlyMap<string, number>): HolderView[] {
    const { told, more } = this.#told('semaphore', name)
    const byLease = new Map<string, Told>()
    for (const one of told) {
      const [lease, , since] = one.hold
      const known = byLease.get(lease)
      // Its former holder does not report any more, or has lost it and does not know yet.
      if (known === undefined || known.hold[2] < since) byLease.set(lease, one)
    }
    const { now } = this.reports
    const before = this.#seen.get(name)
    const seen = new Map(leases.map(({ id }) => [id, before?.get(id) ?? now]))
    this.#seen.delete(name)
    this.#seen.set(name, seen)
    const [oldest] = this.#seen.keys()
    if (this.#seen.size > MOST_OBJECTS) this.#seen.delete(oldest)
    return leases.map(({ id, permits, expiresAt }) => {
      const known = byLease.get(leaseReference(id))
      const since = facts.get(id) ?? known?.hold[2]
      const isNew = now - (since ?? seen.get(id) ?? now) < this.#lateMs
      const by = known !== undefined ? this.#name(known.process) : isNew ? 'new' : more > 0 ? 'untold' : 'unknown'
      return { id, permits, expiresAt, by, ...(since !== undefined && { since }) }
    })
  }

  /** The holds of which only the processes tell: of places, and of permits that each process counts for itself. */
  places(object: string, name: string): { holders: HolderView[]; moreHolders: number } {
    const { told, more } = this.#told(object, name)
    const oldest = [...told].sort((a, b) => a.hold[2] - b.hold[2])
    const holders = oldest.slice(0, MOST_HOLDERS).map(({ process, hold: [, permits, since] }) => {
      return { permits, since, by: this.#name(process) }
    })
    return { holders, moreHolders: told.length - holders.length + more }
  }

  #told(object: string, name: string): Holds {
    const { number } = this.reports
    if (this.#holds?.number !== number) this.#holds = { number, all: holdsOf(this.reports) }
    return this.#holds.all.get(`${object} ${name}`) ?? NO_HOLDS
  }

  #name(process: Process): HolderName {
    const { service, host, pid } = process.record
    return { service, host, pid, ...(this.reports.isSilent(process) && { silent: true }) }
  }

  /** A process with a reporter tells of a lease after this time at the latest, and it is read. */
  get #lateMs(): number {
    const { alive } = this.reports
    const all = alive.map(({ record }) => Math.min(LONGEST_EVERY_MS, record.everyMs))
    const everyMs = all.length > 0 ? Math.max(...all) : USUAL_EVERY_MS
    return everyMs + (this.reports.processes.length > MANY ? SLACK_OF_MANY_MS : SLACK_MS)
  }
}

function holdsOf(reports: Reports): ReadonlyMap<string, Holds> {
  const all = new Map<string, { told: Told[]; more: number }>()
  for (const [process, levels] of reports.levels) {
    for (const { object, name, holds = [], moreHolds = 0 } of levels) {
      const known = getOrMake(all, `${object} ${name}`, () => ({ told: [], more: 0 }))
      for (const hold of holds) known.told.push({ process, hold })
      known.more += moreHolds
    }
  }
  return all
}
