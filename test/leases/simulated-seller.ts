import { type LeasedLimit, sell, takeBack } from '../../src/leases/sale.js'
import type { LeaseFacts, LeaseOrder, LeaseSeller, Sale, UnspentUnits } from '../../src/leases/seller.js'
import type { LeaseTerms } from '../../src/leases/terms.js'
import { measure } from '../../src/limiter/algorithms/registry.js'

/** What the scripts do for one key, in this process: `test/leases/scripts.test.ts` compares the two. */
export class SimulatedServer {
  /** When the windows of a fixed window began. */
  readonly starts: number[] = []
  readonly #kept: readonly LeasedLimit[]
  /** Leases that were ever sold. */
  readonly #names = new Set<string>()

  constructor(readonly terms: LeaseTerms) {
    this.#kept = terms.limits.map(() => ({ state: undefined, note: undefined, sold: new Map(), blockedMs: 0 }))
  }

  buy(now: number, order: Omit<LeaseOrder, 'key' | 'endsAt'>): Sale {
    const { lease, unspent } = order
    if (!this.#names.has(lease)) {
      const sale = sell(this.terms, this.#kept, order, now)
      if (sale.units) this.#names.add(lease)
      this.#noteStart()
      return sale
    }
    // The order was sent again: its answer is in flight, or lost with its units.
    if (unspent !== undefined) this.returnLease(now, unspent)
    return { units: undefined, soldAt: now, lastsMs: 0, limits: [] }
  }

  returnLease(now: number, unspent: UnspentUnits): void {
    takeBack(this.terms, this.#kept, unspent, now)
  }

  /** Spends 1 for now if it fits: a decision that Redis makes. */
  spend(now: number): boolean {
    const { limits } = this.terms
    const measured = limits.map((limit, i) => measure(limit, this.#kept[i].state, now, 1))
    const isAllowed = measured.every(({ verdict }) => verdict.allowed)
    if (isAllowed) for (const [i, { next }] of measured.entries()) this.#kept[i].state = next
    this.#noteStart()
    return isAllowed
  }

  #noteStart(): void {
    for (const [i, { algorithm }] of this.terms.limits.entries()) {
      if (algorithm !== 'fixed-window') continue
      const { startedAt } = (this.#kept[i].state ?? {}) as { startedAt?: number }
      if (startedAt !== undefined && startedAt !== this.starts.at(-1)) this.starts.push(startedAt)
    }
  }
}

/** A message on its way: it may arrive at any later moment, more than once, or never. */
export interface Message {
  /** The server acts on it. */
  arrive(): void
  /** The process hears the answer, if it has arrived. */
  answer(): void
  /** The process hears that the call failed, whether the server has acted or not. */
  fail(): void
}

/** A seller behind a network whose messages arrive when the schedule says so. */
export class SimulatedSeller implements LeaseSeller {
  readonly messages: Message[] = []

  constructor(
    readonly server: SimulatedServer,
    readonly now: () => number,
  ) {}

  unitsOut(): Promise<readonly number[]> {
    return Promise.resolve(this.server.terms.limits.map(() => 0))
  }

  isReady(): boolean {
    return true
  }

  buy(order: LeaseOrder, sold: (sale: Sale) => void, failed: (error: unknown) => void): void {
    void this.#send(() => this.server.buy(this.now(), order)).then(sold, failed)
  }

  returnLease(unspent: UnspentUnits): Promise<void> {
    return this.#send(() => this.server.returnLease(this.now(), unspent))
  }

  settle(_: LeaseFacts, __: number): Promise<void> {
    return Promise.resolve()
  }

  #send<T>(act: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      let reply: { value: T } | undefined
      this.messages.push({
        arrive: () => {
          const value = act()
          reply ??= { value }
        },
        answer: () => {
          if (reply !== undefined) resolve(reply.value)
        },
        fail: () => reject(new Error('the connection was lost')),
      })
    })
  }
}
