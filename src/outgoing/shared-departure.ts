import type { Account } from './account.js'
import { type Call, Departure, type Places } from './line.js'

/** What Redis knows of a charge: the moment at which its units end, by the server's clock. */
export interface SharedCharge {
  readonly account: Account
  /** Undefined: unknown, because an answer was lost. */
  end: number | undefined
  units: number
  /** What Redis is to be told: the answer has come, so many units are given back, and so many count from now on. */
  answered: boolean
  back: number
  more: number
}

/** Who tells Redis what changes. */
export interface DepartureUser {
  /** The name under which a call holds its places. */
  holderOf(order: number): string
  hold(holder: string, places: readonly Places[]): void
  leave(holder: string, places: readonly Places[]): void
  change(charge: SharedCharge): void
}

/** A call that Redis has let leave, or that has left while Redis was away: Redis is told of all that changes. */
export class SharedDeparture extends Departure {
  readonly #asker: DepartureUser
  readonly #shared: readonly SharedCharge[]
  readonly #places: readonly Places[]
  readonly #holder: string
  #leaves = true

  constructor(call: Call, now: number, changed: () => void, asker: DepartureUser, grantedAt: number | undefined) {
    super(call, now, changed)
    this.#asker = asker
    this.#places = call.places
    this.#holder = asker.holderOf(call.order)
    this.#shared = call.charges.map(({ account, units }) => ({
      account,
      end: grantedAt === undefined ? undefined : account.lastEnd(grantedAt),
      units,
      answered: false,
      back: 0,
      more: 0,
    }))
    if (this.#places.length > 0) asker.hold(this.#holder, this.#places)
  }

  override answered(settles = false): void {
    for (const [index, { account }] of this.#shared.entries()) {
      if (!settles || account.budget.settle === undefined) this.#answer(index)
    }
    this.#leave()
    super.answered(settles)
  }

  override unused(): void {
    for (const charge of this.#shared) this.#giveBack(charge, charge.units)
    this.#leave()
    super.unused()
  }

  override settle(index: number, units: number | undefined): void {
    const charge = this.#shared[index]
    const { end, units: estimated } = charge
    // Redis does not know a call that has left while it was away.
    if (end !== undefined) {
      this.#giveBack(charge, estimated)
      charge.more += units ?? estimated
      this.#asker.change(charge)
    }
    super.settle(index, units)
  }

  #answer(index: number): void {
    const charge = this.#shared[index]
    // A slow answer changes nothing.
    const isSlow = this.charges[index].end <= charge.account.endAfter(performance.now())
    if (charge.units === 0 || charge.end === undefined || isSlow) return
    charge.answered = true
    this.#asker.change(charge)
  }

  #giveBack(charge: SharedCharge, units: number): void {
    if (units === 0 || charge.end === undefined) return
    charge.units -= units
    charge.back += units
    this.#asker.change(charge)
  }

  #leave(): void {
    if (this.#leaves && this.#places.length > 0) this.#asker.leave(this.#holder, this.#places)
    this.#leaves = false
  }
}
