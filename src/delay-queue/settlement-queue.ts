import type { Settlement } from './settle-and-fetch.js'

/** Most settlements in one call. */
const MOST = 100

interface PendingSettlement extends Settlement {
  resolve(settled: number): void
  reject(error: unknown): void
}

/** Settlements waiting to be sent, in order. */
export class SettlementQueue {
  #pending: PendingSettlement[] = []

  get empty(): boolean {
    return this.#pending.length === 0
  }

  /** True if there are enough to fill a call. */
  get full(): boolean {
    return this.#pending.length >= MOST
  }

  add(settlement: Settlement): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#pending.push({ ...settlement, resolve, reject })
    })
  }

  /** The settlements that the next call carries. */
  take(): PendingSettlement[] {
    return this.#pending.splice(0, MOST)
  }
}
