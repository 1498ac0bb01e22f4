import { Account, type Places } from './account.js'
import type { Call } from './call.js'
import type { Spent } from './spent.js'

/** What a call takes: units of a budget, or a place of a partner. */
export type Resource = Account | Places

/** Where a line counts what its calls take. */
export interface Keeper {
  /** All that count this budget, or these places. */
  ledgersOf(one: Resource): readonly Spent[]
  /** It is counted differently from now on. `withinMs`: all who count it must know by then; 0: at once. */
  changed(one: Resource, withinMs: number): void
  /** Units or places may be free that were not. */
  look(): void
}

/** What a departure counts of one budget, or of the places of one partner. */
interface CountedCharge {
  readonly resource: Resource
  units: number
  end: number
}

/**
 * What calls hold in a process that dies, places and units of streams, is free after this time; so a permission lapses
 * after it.
 */
export const LEASE_MS = 5000

/**
 * A call that may leave, and then has left: what it takes is counted from the permission, as if the call were sent
 * then, and from the sending on by the moment of the sending.
 */
export class Departure {
  readonly #call: Call
  readonly #keeper: Keeper
  readonly #budgets: readonly CountedCharge[]
  readonly #places: readonly CountedCharge[]
  readonly #lapsesAt: number
  #leaving: (() => void)[] | undefined = []

  /** `permittedAt`: since when all counts of the budgets include it. */
  constructor(call: Call, permittedAt: number, keeper: Keeper) {
    this.#call = call
    this.#keeper = keeper
    this.#budgets = call.charges.map(({ account, units }) => this.#count(account, units, account.lastEnd(permittedAt)))
    this.#places = call.places.map(places => this.#count(places, 1, Number.POSITIVE_INFINITY))
    const spans = call.charges.map(({ account }) => account.budget.intervalMs)
    this.#lapsesAt = permittedAt + Math.min(LEASE_MS, ...spans)
  }

  /**
   * The call is sent now. False: so long after its permission that others may have been given the units. Then it takes
   * nothing, and has to wait again. A second time only the counts of this process matter: the way to Redis and back
   * takes longer than an interval.
   */
  sends(): boolean {
    const now = performance.now()
    const isLate = now >= this.#lapsesAt && !this.#call.wasLate
    if (isLate || this.#budgets.some(charge => hasEnded(charge, now))) {
      this.#call.wasLate = true
      this.unused()
      return false
    }
    this.#call.wasLate = false
    for (const charge of this.#budgets) {
      const account = charge.resource as Account
      // Its partner may count what it has sent only at the end.
      const end = account.budget.settle === undefined ? account.lastEnd(now) : Number.POSITIVE_INFINITY
      if (end !== charge.end) this.#move(charge, end)
    }
    return true
  }

  /**
   * The answer has come, or the call has failed: its units end an interval from now, unless they end before. `settles`:
   * those of budgets with `settle` are held until `settle` is called.
   */
  answered(settles = false): void {
    for (const charge of this.#budgets) {
      const { budget } = charge.resource as Account
      if (settles && budget.settle !== undefined) continue
      const end = (charge.resource as Account).endAfter(performance.now())
      if (end < charge.end) this.#move(charge, end)
    }
    this.#leave()
  }

  /** Called when the places are free again. */
  onLeave(listener: () => void): void {
    this.#leaving?.push(listener)
  }

  /** The call does not leave after all. */
  unused(): void {
    for (const charge of this.#budgets) this.#move(charge, charge.end, 0)
    this.#leave()
  }

  /** What the call has really cost of the budget of this index, which counts from now on; undefined: as estimated. */
  settle(index: number, units: number | undefined): void {
    const charge = this.#budgets[index]
    this.#move(charge, (charge.resource as Account).endAfter(performance.now()), units)
    this.#keeper.look()
  }

  #count(resource: Resource, units: number, end: number): CountedCharge {
    for (const ledger of this.#keeper.ledgersOf(resource)) ledger.add(end, units)
    return { resource, units, end }
  }

  /** Counts so many units until then, in place of those that it has counted. */
  #move(charge: CountedCharge, end: number, units = charge.units): void {
    if (end === charge.end && units === charge.units) return
    // Asked for each time: one in which nothing was counted any more may have been replaced.
    for (const ledger of this.#keeper.ledgersOf(charge.resource)) {
      ledger.giveBack(charge.end, charge.units)
      ledger.add(end, units)
    }
    // What only lasts longer is counted everywhere until it would have ended.
    const onlyLasts = units === charge.units && end > charge.end
    this.#keeper.changed(charge.resource, onlyLasts ? (charge.end - performance.now()) / 2 : 0)
    charge.end = end
    charge.units = units
  }

  #leave(): void {
    for (const leave of this.#leaving ?? []) leave()
    this.#leaving = undefined
    for (const charge of this.#places) this.#move(charge, charge.end, 0)
    this.#keeper.look()
  }
}

/** Whether its units have ended, and others have taken them. */
function hasEnded({ resource, units, end }: CountedCharge, now: number): boolean {
  if (!(resource instanceof Account) || end > now) return false
  resource.update(now)
  return !resource.fits(units)
}
