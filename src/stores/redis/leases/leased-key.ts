import { wallOffset } from '../../../core/clock.js'
import type { Verdict } from '../../../core/decision.js'
import type { Limit } from '../../../core/limit.js'
import type { Asker } from '../../store.js'
import { Account, type KeyAnswer } from './account.js'
import { Demand } from './demand.js'
import { capped, Holdings, type HoldingsParts, Lease } from './holdings.js'
import type { Sale } from './seller.js'

/** A request that waits for a purchase. */
interface LeaseAsker {
  readonly cost: number
  readonly asker: Asker
}

/** The one purchase of a key in flight, and the requests that wait for it. */
class Purchase {
  readonly askers: LeaseAsker[] = []
  /** Units needed by requests that came before it was sent. */
  need = 0
  sent = false
  /** The number of requests that came before it was sent. */
  counted = 0
  /** When it was sent, by the process's own clock. */
  askedAt = 0
  /** See `wallOffset`, at that moment. */
  offset = 0
  /** By `performance.now()`: the purchase is given up then. */
  endsAt = Number.POSITIVE_INFINITY

  /** `lease`: the name of the new lease. `cost`: of one request. */
  constructor(
    readonly lease: string,
    readonly cost: number,
  ) {}

  join(cost: number, asker: Asker): void {
    this.askers.push({ cost, asker })
    if (this.sent) return
    this.need += cost
    this.counted++
    if (asker.endsAt !== undefined) this.endsAt = Math.min(this.endsAt, asker.endsAt)
  }
}

/** The pause after a purchase that got fewer units than it requested, as a part of the duration of its lease. */
const PAUSE = 1 / 8
/** A purchase covers the expected demand of this part of the ttl. */
const BOUGHT_AHEAD = 1 / 2
/** A purchase is given up this long after its deadline, because then its script certainly does nothing any more. */
const GRACE_MS = 100
/** The assumed relative drift between the clocks of two machines. */
const DRIFT = 1 / 1000

/** The common parts of all leased keys of one policy. */
export interface LeaseOffice extends HoldingsParts {
  /** Begins the names of all leases that this book buys. */
  readonly owner: string
  /** Calls back after this turn of the event loop, so that the requests of one turn share a purchase. */
  defer(send: () => void): void
  /** Asks Redis for one decision, without a lease. */
  decide(key: string, cost: number, asker: Asker): void
  bought(units: number, lastsMs: number): void
}

let leases = 0

/** A busy key: its leases in this process, and the purchase of more. */
export class LeasedKey {
  readonly #holdings: Holdings
  #purchase: Purchase | undefined
  #pausedUntil = Number.NEGATIVE_INFINITY
  /** Until then Redis sells no lease, and decides each request. */
  #closedUntil = Number.NEGATIVE_INFINITY
  /** Incremented when leases bought before must not be spent any more. */
  #version = 0
  /** The last lease, if Redis sold all requested units. It is expected to last for half a ttl. */
  #ample: Lease | undefined
  readonly #demand: Demand
  readonly account: Account

  constructor(
    readonly key: string,
    readonly office: LeaseOffice,
    now: number,
  ) {
    this.#holdings = new Holdings(office)
    this.#demand = new Demand(office.terms.ttlMs, now)
    this.account = new Account(office.terms.ttlMs)
  }

  /** Spends from a lease; undefined if none has enough units. */
  spend(cost: number, now: number): Lease | undefined {
    const demand = this.#demand
    demand.hits++
    demand.units += cost
    const lease = this.#holdings.first
    if (lease === undefined || now >= lease.checkAt || now < lease.askedAt) return this.#spend(cost, now)
    // Reading the wall clock costs too much for each: after a suspension, up to 15 more are spent from an ended lease.
    if (demand.hits % 16 === 0) return this.#spend(cost, now)
    const left = lease.units - cost
    if (left < lease.checkBelow || left < 0) return this.#spend(cost, now)
    lease.units = left
    return lease
  }

  /** Units that this process can still spend. */
  held(now: number): number {
    return this.#holdings.held(now)
  }

  /** The refusal of a request during the pause between two purchases; undefined if the request must not be refused. */
  refusal(cost: number, now: number): readonly Verdict[] | undefined {
    const waitMs = this.#pausedUntil - now
    if (this.#purchase !== undefined || waitMs <= 0 || waitMs > this.office.terms.ttlMs) return undefined
    const held = this.held(now)
    if (held >= cost) return undefined
    return this.office.terms.limits.map((limit, i) => ({
      limit,
      allowed: false,
      remaining: held + this.account.remaining[i],
      retryAfterMs: Math.ceil(waitMs),
      resetAfterMs: Math.ceil(waitMs),
      delayMs: 0,
    }))
  }

  /** Buys for a request without a lease. False if Redis must decide it. */
  ask(cost: number, asker: Asker, now: number): boolean {
    const { terms } = this.office
    if (cost > terms.largestCost || now < this.#closedUntil || !this.#demand.isHigh(now)) return false
    this.#giveUpLate()
    this.#noteExcess(now)
    if (this.#purchase !== undefined) {
      this.#purchase.join(cost, asker)
      return true
    }
    const refusal = this.refusal(cost, now)
    if (refusal !== undefined) {
      queueMicrotask(() => asker.resolve(refusal, performance.now()))
      return true
    }
    this.#open(cost).join(cost, asker)
    return true
  }

  /** Redis has decided a request without a lease: the verdicts with what is left, now that this answer is known. */
  decided(verdicts: readonly Verdict[], decidedAt: number, askedAt: number): readonly Verdict[] {
    this.account.answered(answerOf(verdicts, decidedAt, askedAt))
    return this.#withRemaining(verdicts)
  }

  /** As `decided`, for a request that waited in line: see `Account`. */
  granted(verdicts: readonly Verdict[], grantedAt: number): readonly Verdict[] {
    this.account.granted(answerOf(verdicts, grantedAt, this.office.now()))
    return this.#withRemaining(verdicts)
  }

  /** Units were given back: buying may succeed again. */
  wake(): void {
    this.#pausedUntil = Number.NEGATIVE_INFINITY
    if (this.#purchase === undefined && !this.#holdings.hasNext) this.#holdings.first?.watch()
  }

  /** The key was reset or blocked: its leases must not be spent any more. */
  drop(): void {
    this.#version++
    this.wake()
    this.#holdings.retireAll()
  }

  /** Puts units of a settled decision back into their lease. False if the lease has ended. */
  putBack(lease: Lease, units: number): boolean {
    return this.#holdings.putBack(lease, units)
  }

  /** Gives back ended leases. True while a lease is held, or the key is in demand. */
  tidy(now: number): boolean {
    this.#holdings.retireEnded(now)
    this.#giveUpLate()
    if (this.#purchase === undefined) void this.#holdings.returnLeftover()
    return this.#demand.isHigh(now) || !this.#holdings.isEmpty || this.#purchase !== undefined
  }

  /** Gives back all unspent units. */
  async close(): Promise<void> {
    this.#version++
    this.#holdings.retireAll()
    await this.#holdings.returnLeftover()
  }

  #spend(cost: number, now: number): Lease | undefined {
    const lease = this.#holdings.spend(cost, now)
    if (lease !== undefined && (lease.units < lease.checkBelow || now >= lease.checkAt)) this.#refill(lease, now)
    return lease
  }

  #refill(lease: Lease, now: number): void {
    const closedUntil = Math.max(this.#pausedUntil, this.#closedUntil)
    if (this.#purchase !== undefined || this.#holdings.hasNext) lease.rest(lease.endsAt)
    else if (now < closedUntil) lease.rest(closedUntil)
    else if (this.office.seller.isReady() && this.#demand.isHigh(now)) {
      this.#open(1)
    }
  }

  /** Raises the demand if a lease was used up earlier than expected: the key is used faster than measured. */
  #noteExcess(now: number): void {
    const lease = this.#ample
    this.#ample = undefined
    if (lease === undefined || lease.units > 0) return
    const lastedMs = now - lease.askedAt
    if (lastedMs < this.office.terms.ttlMs * BOUGHT_AHEAD) this.#demand.exceed(lease.facts.sold, lastedMs)
  }

  #purchaseEnded(): void {
    this.#purchase = undefined
    if (!this.#holdings.hasNext) this.#holdings.first?.watch()
  }

  #open(cost: number): Purchase {
    const purchase = new Purchase(`${this.office.owner}.${++leases}`, cost)
    this.#purchase = purchase
    this.office.defer(() => this.#send(purchase))
    return purchase
  }

  #send(purchase: Purchase): void {
    const { terms, seller } = this.office
    const now = this.office.now()
    purchase.sent = true
    purchase.askedAt = now
    purchase.offset = wallOffset()
    // No request waits for this purchase. After a ttl its units could not be spent any more.
    if (purchase.endsAt === Number.POSITIVE_INFINITY) {
      purchase.endsAt = performance.now() + (purchase.counted > 0 ? 1000 : terms.ttlMs)
    }
    const { lease, cost, need, endsAt } = purchase
    const want = Math.min(terms.largestCost, need + this.#demand.expected(terms.ttlMs * BOUGHT_AHEAD, now))
    const leftover = this.#holdings.takeLeftover()
    const version = this.#version
    seller.buy(
      { key: this.key, lease, cost, need, want, leftover, endsAt },
      sale => this.#sold(purchase, sale, want, version),
      error => this.#failed(purchase, error),
    )
  }

  #sold(purchase: Purchase, sale: Sale, want: number, version: number): void {
    const now = this.office.now()
    const expected = this.#purchase === purchase
    if (expected) this.#purchaseEnded()
    if (sale.units === undefined) {
      // No lease was sold, because a window ends soon or a request waits in line.
      this.#closedUntil = now + Math.max(1, sale.lastsMs)
      for (const { cost, asker } of purchase.askers) this.office.decide(this.key, cost, asker)
      return
    }
    this.account.answered({ ...sale, decidedAt: sale.soldAt, askedAt: purchase.askedAt })
    const bought = sale.units > 0 ? this.#lease(purchase, sale.units, sale, now) : undefined
    this.#ample = sale.units < want ? undefined : bought
    if (sale.units < want) this.#pausedUntil = now + sale.lastsMs * PAUSE
    // The sale has decided the requests made before the purchase was sent. This decision holds even if the answer is late.
    const { askers } = purchase
    let served = 0
    let units = 0
    if (bought !== undefined) {
      while (served < purchase.counted && bought.units >= askers[served].cost) {
        const { cost } = askers[served++]
        bought.units -= cost
        units += cost
      }
      this.#keep(bought, version, now)
      for (const { cost, asker } of askers.slice(0, served)) {
        units -= cost
        this.#resolve(asker, bought, this.held(now) + units, now)
      }
    }
    for (const waiting of askers.slice(served)) this.#serve(waiting, purchase, sale, now)
  }

  #lease({ lease, askedAt, offset }: Purchase, units: number, sale: Sale, now: number): Lease {
    const { soldAt, remaining, resetAfterMs, lastsMs } = sale
    const facts = { key: this.key, lease, sold: units, soldAt, remaining, resetAfterMs }
    const refillBelow = Math.max(1, Math.ceil(units / 4), this.#demand.expected(2 * (now - askedAt), now))
    this.office.bought(units, lastsMs)
    return new Lease(facts, this.account, askedAt, askedAt + lastsMs * (1 - DRIFT), refillBelow, offset)
  }

  #keep(bought: Lease, version: number, now: number): void {
    if (version === this.#version && bought.units > 0 && bought.isLive(now)) this.#holdings.add(bought, now)
    else this.#holdings.retire(bought)
  }

  /** Answers a waiting request: spends from the lease, or else refuses with the wait of the server or of the pause, or else lets it wait for the next purchase. */
  #serve({ cost, asker }: LeaseAsker, purchase: Purchase, sale: Sale, now: number): void {
    const lease = this.#spend(cost, now)
    if (lease !== undefined) {
      this.#resolve(asker, lease, this.held(now), now)
    } else if (cost === purchase.cost && purchase.need > 0 && sale.retries.some(retry => retry !== 0)) {
      asker.resolve(this.#refusals(sale, this.held(now)), performance.now(), sale.soldAt)
    } else if (!this.ask(cost, asker, now)) {
      this.office.decide(this.key, cost, asker)
    }
  }

  /** What Redis has left by the newest answer, and what this process holds besides. */
  #withRemaining(verdicts: readonly Verdict[]): readonly Verdict[] {
    const held = this.held(this.office.now())
    return verdicts.map((verdict, i) => ({ ...verdict, remaining: this.account.remaining[i] + held }))
  }

  #refusals({ remaining, resetAfterMs, retries }: Sale, held: number): readonly Verdict[] {
    const { limits, ttlMs } = this.office.terms
    const verdicts = limits.map((limit, i) => refusal(limit, remaining[i] + held, resetAfterMs[i], retries[i]))
    // What this process holds is too little for this request, and comes back when its lease ends.
    return held === 0 ? verdicts : verdicts.map(verdict => capped(verdict, ttlMs))
  }

  #resolve(asker: Asker, lease: Lease, held: number, now: number): void {
    const verdicts = this.office.terms.limits.map((limit, i) => lease.verdict(limit, i, held, now))
    asker.resolve(verdicts, performance.now(), lease.facts.soldAt, lease)
  }

  /** Rejects the requests that came before the purchase was sent. The others ask again while they have time: the purchase was not given their deadlines. */
  #failed(purchase: Purchase, error: unknown): void {
    if (this.#purchase === purchase) this.#purchaseEnded()
    const { askers, counted } = purchase
    for (const { asker } of askers.slice(0, counted)) asker.reject(error)
    const now = this.office.now()
    const failedAt = performance.now()
    for (const { cost, asker } of askers.slice(counted)) {
      if (asker.endsAt !== undefined && asker.endsAt <= failedAt) asker.reject(error)
      else if (!this.ask(cost, asker, now)) this.office.decide(this.key, cost, asker)
    }
  }

  /** Gives up a purchase without an answer; its units go back. */
  #giveUpLate(): void {
    const purchase = this.#purchase
    if (purchase?.sent && performance.now() > purchase.endsAt + GRACE_MS) this.#purchaseEnded()
  }
}

/** `retry`: see `Sale`. */
function refusal(limit: Limit, remaining: number, resetAfterMs: number, retry: number): Verdict {
  const verdict = { limit, allowed: retry === 0, remaining, resetAfterMs, delayMs: 0 }
  if (retry >= 0) return { ...verdict, retryAfterMs: retry }
  if (retry === -1) return { ...verdict, retryAfterMs: Number.POSITIVE_INFINITY }
  return { ...verdict, retryAfterMs: -2 - retry, blocked: true }
}

function answerOf(verdicts: readonly Verdict[], decidedAt: number, askedAt: number): KeyAnswer {
  return {
    remaining: verdicts.map(({ remaining }) => remaining),
    resetAfterMs: verdicts.map(({ resetAfterMs }) => resetAfterMs),
    decidedAt,
    askedAt,
  }
}
