import type { LeaseFacts, LeaseOrder, LeaseSeller, Sale, UnspentUnits } from '../../src/leases/seller.js'
import type { LeaseTerms } from '../../src/leases/terms.js'
import { verdictOf } from '../../src/limiter/core/decision.js'
import type { Limit } from '../../src/limiter/core/limit.js'

/** The state that the scripts keep for one key under one limit. */
interface KeptLimit {
  room(now: number): { units: number; lastsMs: number }
  buy(now: number, units: number): void
  /** Takes units of a lease back that was sold at this moment. */
  returnLease(now: number, soldAt: number, units: number): void
  /** Spends 1 for now if it fits: a decision that Redis makes. */
  spend(now: number): boolean
  remaining(now: number): number
}

/** The arithmetic of the scripts for one key, in this process: `test/leases/scripts.test.ts` compares the two. */
export class SimulatedServer {
  readonly #limits: readonly KeptLimit[]
  /** When each lease was sold; NaN once it has come back. */
  readonly #sold = new Map<string, number>()

  constructor(readonly terms: LeaseTerms) {
    this.#limits = terms.limits.map(limit => keptLimit(limit, terms.ttlMs))
  }

  buy(now: number, { lease, need, want, unspent }: Omit<LeaseOrder, 'key' | 'cost' | 'endsAt'>): Sale {
    if (unspent !== undefined) this.returnLease(now, unspent)
    // The order was sent again.
    if (this.#sold.has(lease)) {
      return { units: undefined, soldAt: now, lastsMs: 0, limits: [] }
    }
    const rooms = this.#limits.map(limit => limit.room(now))
    const room = Math.min(...rooms.map(({ units }) => units))
    const lastsMs = Math.min(...rooms.map(({ lastsMs }) => lastsMs))
    if (lastsMs < 2) return { units: undefined, soldAt: now, lastsMs, limits: [] }
    const share = Math.min(1, this.terms.ttlMs / (4 * lastsMs))
    const units = Math.min(want, Math.max(Math.min(need, room), Math.floor(room * share)))
    if (units > 0) {
      for (const limit of this.#limits) limit.buy(now, units)
      this.#sold.set(lease, now)
    }
    const limits = this.#limits.map((limit, i) => {
      const remaining = limit.remaining(now)
      // The tests do not check when a single request fits: any moment of the next window.
      const retryAfterMs = units < need && remaining < 1 ? 1 : 0
      return verdictOf(this.terms.limits[i], remaining, retryAfterMs, this.terms.limits[i].windowMs)
    })
    return { units, soldAt: now, lastsMs, limits }
  }

  returnLease(now: number, { facts, units }: UnspentUnits): void {
    if (this.#sold.get(facts.lease) !== facts.soldAt) return
    this.#sold.set(facts.lease, Number.NaN)
    for (const limit of this.#limits) limit.returnLease(now, facts.soldAt, units)
  }

  /** When the windows of a fixed window began. */
  get starts(): readonly number[] {
    return this.#limits.flatMap(limit => (limit instanceof KeptCounter ? limit.starts : []))
  }

  spend(now: number): boolean {
    if (this.#limits.some(limit => limit.remaining(now) < 1)) return false
    for (const limit of this.#limits) limit.spend(now)
    return true
  }
}

function keptLimit(limit: Limit, ttlMs: number): KeptLimit {
  switch (limit.algorithm) {
    case 'sliding-window':
      return new KeptWindow(limit, ttlMs)
    case 'token-bucket':
      return new KeptBucket(limit, ttlMs)
    case 'fixed-window':
      return new KeptCounter(limit, ttlMs)
    case 'sliding-counter':
      return new KeptCells(limit, ttlMs)
    default:
      throw new Error(`${limit.algorithm} is not leased`)
  }
}

class KeptWindow implements KeptLimit {
  /** By moment, which rises but for less than a ttl. */
  readonly #units = new Map<number, number>()
  #sum = 0

  constructor(
    readonly limit: Limit,
    readonly ttlMs: number,
  ) {}

  remaining(now: number): number {
    for (const [at, units] of this.#units) {
      if (at >= now - this.limit.windowMs + 2 * this.ttlMs) break
      if (now - at < this.limit.windowMs) continue
      this.#sum -= units
      this.#units.delete(at)
    }
    return Math.max(0, this.limit.quota - this.#sum)
  }

  room(now: number) {
    return { units: this.remaining(now), lastsMs: this.ttlMs }
  }

  buy(now: number, units: number): void {
    this.#add(now + this.ttlMs, units)
  }

  spend(now: number): boolean {
    this.#add(now, 1)
    return true
  }

  returnLease(_: number, soldAt: number, units: number): void {
    const at = soldAt + this.ttlMs
    this.#add(at, -Math.min(units, this.#units.get(at) ?? 0))
  }

  #add(at: number, units: number): void {
    this.#units.set(at, (this.#units.get(at) ?? 0) + units)
    this.#sum += units
  }
}

class KeptBucket implements KeptLimit {
  #at = 0
  #level = 0

  constructor(
    readonly limit: Limit,
    readonly ttlMs: number,
  ) {}

  remaining(now: number): number {
    return Math.max(0, Math.floor(this.limit.burst - this.#levelAt(now) / this.limit.windowMs))
  }

  room(now: number) {
    const { burst, quota, windowMs } = this.limit
    const level = Math.max(this.#levelAt(now), quota * this.ttlMs)
    return { units: Math.max(0, Math.floor(burst - level / windowMs)), lastsMs: this.ttlMs }
  }

  buy(now: number, units: number): void {
    this.#become(now, Math.max(this.#levelAt(now), this.limit.quota * this.ttlMs) + units * this.limit.windowMs)
  }

  spend(now: number): boolean {
    this.#become(now, this.#levelAt(now) + this.limit.windowMs)
    return true
  }

  returnLease(now: number, soldAt: number, units: number): void {
    const { quota, windowMs } = this.limit
    const back = Math.max(0, Math.floor((units * windowMs - quota * (now - soldAt)) / windowMs)) * windowMs
    this.#become(now, Math.max(0, this.#levelAt(now) - back))
  }

  #levelAt(now: number): number {
    return Math.max(0, this.#level - this.limit.quota * (now - this.#at))
  }

  #become(at: number, level: number): void {
    this.#at = at
    this.#level = level
  }
}

class KeptCounter implements KeptLimit {
  /** Of each window, when it began: what is compared with what was really spent. */
  readonly starts: number[] = []
  #spent = 0

  constructor(
    readonly limit: Limit,
    readonly ttlMs: number,
  ) {}

  remaining(now: number): number {
    return this.#isOpen(now) ? Math.max(0, this.limit.quota - this.#spent) : this.limit.quota
  }

  room(now: number) {
    const { windowMs } = this.limit
    const leftMs = this.#isOpen(now) ? this.starts[this.starts.length - 1] + windowMs - now : windowMs
    return { units: this.remaining(now), lastsMs: Math.min(this.ttlMs, leftMs - 1) }
  }

  buy(now: number, units: number): void {
    if (!this.#isOpen(now)) {
      this.starts.push(now)
      this.#spent = 0
    }
    this.#spent += units
  }

  spend(now: number): boolean {
    this.buy(now, 1)
    return true
  }

  returnLease(now: number, soldAt: number, units: number): void {
    const start = this.starts[this.starts.length - 1]
    if (this.#isOpen(now) && soldAt >= start) this.#spent -= Math.min(units, this.#spent)
  }

  #isOpen(now: number): boolean {
    const start = this.starts[this.starts.length - 1]
    return start !== undefined && now - start < this.limit.windowMs
  }
}

class KeptCells implements KeptLimit {
  readonly #cells = new Map<number, number>()

  constructor(
    readonly limit: Limit,
    readonly ttlMs: number,
  ) {}

  remaining(now: number): number {
    const { quota, windowMs } = this.limit
    const cell = now - (now % windowMs)
    const before = this.#cells.get(cell - windowMs) ?? 0
    const counted = (this.#cells.get(cell) ?? 0) + Math.ceil((before * (cell + windowMs - now)) / windowMs)
    return Math.max(0, quota - counted)
  }

  room(now: number) {
    const { windowMs } = this.limit
    return { units: this.remaining(now), lastsMs: Math.min(this.ttlMs, windowMs - (now % windowMs) - 1) }
  }

  buy(now: number, units: number): void {
    const cell = now - (now % this.limit.windowMs)
    this.#cells.set(cell, (this.#cells.get(cell) ?? 0) + units)
  }

  spend(now: number): boolean {
    this.buy(now, 1)
    return true
  }

  returnLease(_: number, soldAt: number, units: number): void {
    const cell = soldAt - (soldAt % this.limit.windowMs)
    this.#cells.set(cell, Math.max(0, (this.#cells.get(cell) ?? 0) - units))
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
