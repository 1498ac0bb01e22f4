import type { Pending } from '../core/clock.js'
import type { Commands } from '../redis/commands.js'
import type { Settlement } from './fetch.js'

/** Most settlements in one call. */
const MOST = 100

interface PendingSettlement extends Settlement {
  readonly call: Pending
  resolve(settled: number): unknown
  reject(error: unknown): unknown
}

/** Settlements waiting to be sent, in order. */
export class SettlementQueue {
  readonly #commands: Commands
  #pending: PendingSettlement[] = []

  constructor(commands: Commands) {
    this.#commands = commands
  }

  get empty(): boolean {
    return this.#pending.length === 0
  }

  /** True if there are enough to fill a call. */
  get full(): boolean {
    return this.#pending.length >= MOST
  }

  add(settlement: Settlement): Promise<number> {
    return new Promise((resolve, reject) => {
      const call = this.#commands.begin(error => {
        // Calls expire in their order. This one is not sent any more, unless it is in flight.
        if (this.#pending[0]?.call === call) this.#pending.shift()
        reject(error)
      })
      this.#pending.push({
        ...settlement,
        call,
        resolve: settled => this.#commands.end(call) && resolve(settled),
        reject: error => this.#commands.end(call) && reject(error),
      })
    })
  }

  /** The settlements that the next call carries. */
  take(): PendingSettlement[] {
    return this.#pending.splice(0, MOST)
  }
}
