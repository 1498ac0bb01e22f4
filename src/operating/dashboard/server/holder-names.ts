import { getOrMake } from '../../../limiter/core/maps.js'
import type { LeaseInfo } from '../../../waiting/semaphore/commands.js'
import { type HoldRow, leaseReference } from '../records.js'
import type { HolderName, HolderView } from '../view.js'
import type { FleetReports, Process } from './fleet-reports.js'

const MOST_HOLDERS = 50

/** What a process tells of one of its holds, and which process it is. */
interface ReportedHold {
  readonly process: Process
  readonly hold: HoldRow
}

/** What all processes tell of one object: its holds, and how many more there are. */
interface Holds {
  readonly told: readonly ReportedHold[]
  readonly more: number
}

const USUAL_EVERY_MS = 2000
const LONGEST_EVERY_MS = 10_000
/** Details of many processes are read only every ten seconds. */
const SLACK_MS = 2000
const SLACK_OF_MANY_MS = 12_000
const MANY = 20
const NO_HOLDS: Holds = { told: [], more: 0 }

/** Says which process holds a lease: each process reports those that it holds, see `RecentActivity`. */
export class HolderNames {
  /** By object, of one summary. */
  #holds: { readonly number: number; readonly all: ReadonlyMap<string, Holds> } | undefined

  constructor(readonly reports: FleetReports) {}

  /** The leases of a semaphore as Redis lists them, with their holders. */
  leases(name: string, leases: readonly LeaseInfo[]): HolderView[] {
    const { told, more } = this.#told('semaphore', name)
    const byLease = new Map(told.map(one => [one.hold[0], one.process]))
    const { now } = this.reports
    return leases.map(({ id, permits, expiresAt, since }) => {
      const process = byLease.get(leaseReference(id))
      const isNew = now - since < this.#lateMs
      const by = process !== undefined ? this.#name(process) : isNew ? 'new' : more > 0 ? 'untold' : 'unknown'
      return { id, permits, expiresAt, by, since }
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

function holdsOf(reports: FleetReports): ReadonlyMap<string, Holds> {
  const all = new Map<string, { told: ReportedHold[]; more: number }>()
  for (const [process, levels] of reports.levels) {
    for (const { object, name, holds = [], moreHolds = 0 } of levels) {
      const known = getOrMake(all, `${object} ${name}`, () => ({ told: [], more: 0 }))
      for (const hold of holds) known.told.push({ process, hold })
      known.more += moreHolds
    }
  }
  return all
}
