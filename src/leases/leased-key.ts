import { GRACE_MS, wallOffset } from '../limiter/core/clock.js'
import type { Verdict } from '../limiter/core/decision.js'
import { StoreError } from '../limiter/core/errors.js'
import type { Reply } from '../limiter/port.js'
import type { Account } from './account.js'
import { Demand } from './demand.js'
import { Holdings, Lease, type PolicyLeases } from './holdings.js'
import { capped, type Sale } from './seller.js'

/** A request that waits for a purchase. */
interface WaitingRequest {
  readonly cost: number
  readonly reply: Reply
}

/** A purchase, and the requests that wait for it. */
class Purchase {
  readonly waiting: WaitingRequest[] = []
  sent = false
  /** The number of requests that came before it was sent, and the units that they need. */
  counted = 0
  need = 0
  /** Units that it asks for. */
  want = 0
  /** When it was sent, by the process's own clock; and `wallOffset` at that moment. */
  askedAt = 0
  offset = 0
  /** By `performance.now()`: the purchase is given up then. */
  endsAt = Number.POSITIVE_INFINITY

  /** `lease`: the name of the new lease. `cost`: of one request. */
  constructor(
    readonly lease: string,
    readonly cost: number,
  ) {}

  join(cost: number, reply: Reply): void {
    this.waiting.push({ cost, reply })
    if (this.sent) return
    this.need += cost
    this.counted++
    if (reply.endsAt !== undefined) this.endsAt = Math.min(this.endsAt, reply.endsAt)
  }
}

/**
 * Whether units of a key are being bought. It decides what becomes of a request for which this process holds no units:
 *
 * | state   | such a request         | begins                                               | ends                                                            |
 * | ------- | ---------------------- | ---------------------------------------------------- | --------------------------------------------------------------- |
 * | idle    | buys                   |                                                      | with a purchase                                                 |
 * | buying  | waits for the purchase | with a request, or before a lease is used up or ends | with the answer or its deadline; if the key is reset or blocked |
 * | pausing | is refused             | when a purchase got fewer units than it asked for    | an eighth of its lease later; when units were given back        |
 * | closed  | is decided by Redis    | when Redis sold no lease                             | when Redis may sell again                                       |
 *
 * In each state Redis decides a request that is larger than any lease, and every request while the key is little used.
 * A purchase that is answered in a later state still decides the requests that wait for it; its other units go back.
 */
type State =
  | { readonly is: 'idle' }
  | { readonly is: 'buying'; readonly purchase: Purchase }
  | { readonly is: 'pausing' | 'closed'; readonly sinceAt: number; readonly untilAt: number }

const IDLE: State = { is: 'idle' }

/** The pause after a purchase that got fewer units than it requested, as a part of the duration of its lease. */
const PAUSE = 1 / 8
/** A purchase covers the expected demand of this part of the ttl. */
const BOUGHT_AHEAD = 1 / 2
/** A purchase is given up this long after its deadline, because then its script certainly does nothing any more. */
const PURCHASE_GRACE_MS = 100
/** The assumed relative drift between the clocks of two machines. */
const DRIFT = 1 / 1000

let leases = 0

/** A busy key: its leases in this process, and the purchase of more. */
export class LeasedKey {
  readonly holdings: Holdings
  readonly #demand: Demand
  #state: State = IDLE
  /** The last lease, if Redis sold all that was asked for. It is expected to last for half a ttl. */
  #fullSale: Lease | undefined

  constructor(
    readonly key: string,
    readonly policy: PolicyLeases,
    readonly account: Account,
    now: number,
  ) {
    this.holdings = new Holdings(policy)
    this.#demand = new Demand(policy.terms.ttlMs, now)
  }

  /** Spends from a lease; undefined if none has enough units. */
  spend(cost: number, now: number): Lease | undefined {
    const demand = this.#demand
    demand.hits++
    demand.units += cost
    const lease = this.holdings.first
    if (lease === undefined || now >= lease.checkAt || now < lease.askedAt) return this.#spend(cost, now)
    // Reading the wall clock costs too much for each: after a suspension, up to 15 more are spent from an ended lease.
    if (demand.hits % 16 === 0) return this.#spend(cost, now)
    const left = lease.units - cost
    if (left < lease.checkBelow || left < 0) return this.#spend(cost, now)
    lease.units = left
    return lease
  }

  /** The refusal of a request during the pause between two purchases; undefined if the request must not be refused. */
  refusal(cost: number, now: number): readonly Verdict[] | undefined {
    const state = this.#stateAt(now)
    if (state.is !== 'pausing') return undefined
    const held = this.holdings.held(now)
    if (held >= cost) return undefined
    const waitMs = Math.ceil(state.untilAt - now)
    return this.policy.terms.limits.map((limit, i) => ({
      limit,
      allowed: false,
      remaining: held + this.account.remaining[i],
      retryAfterMs: waitMs,
      resetAfterMs: waitMs,
      delayMs: 0,
    }))
  }

  /** Takes over a request. False if Redis must decide it. */
  ask(cost: number, reply: Reply, now: number): boolean {
    const lease = this.#spend(cost, now)
    if (lease === undefined) return this.#buy(cost, reply, now)
    // Nobody has called `spend` for this request before: it would have found these units.
    this.#demand.hits++
    this.#demand.units += cost
    const verdicts = this.#verdicts(lease, this.holdings.held(now), now)
    queueMicrotask(() => reply.resolve(verdicts, performance.now(), lease.facts.soldAt, lease))
    return true
  }

  /**
   * Verdicts of Redis, once its answer is accounted for: what is left by the newest answer, and what this process holds
   * besides.
   */
  withRemaining(verdicts: readonly Verdict[]): readonly Verdict[] {
    const held = this.holdings.held(this.policy.now())
    return verdicts.map((verdict, i) => ({ ...verdict, remaining: this.account.remaining[i] + held }))
  }

  /** Units were given back: buying may succeed again. */
  wake(): void {
    if (this.#state.is === 'pausing') this.#state = IDLE
    this.#watchLease()
  }

  /** The key was reset or blocked: no lease that was bought before must be spent any more. */
  drop(): void {
    if (this.#purchase !== undefined) this.#end(this.#purchase)
    this.wake()
    this.holdings.retireAll()
  }

  /** Gives back ended leases. True while a lease is held, or the key is in demand. */
  tidy(now: number): boolean {
    this.holdings.retireEnded(now)
    this.#giveUpLate()
    const isBuying = this.#purchase !== undefined
    if (!isBuying) void this.holdings.returnUnspent()
    return isBuying || this.#demand.isHigh(now) || this.holdings.first !== undefined
  }

  /** Gives back all unspent units. */
  async close(): Promise<void> {
    this.drop()
    await this.holdings.returnUnspent()
  }

  get #purchase(): Purchase | undefined {
    return this.#state.is === 'buying' ? this.#state.purchase : undefined
  }

  /** The state, of which a pause and a closure end by themselves. */
  #stateAt(now: number): State {
    const state = this.#state
    if ('untilAt' in state && (now >= state.untilAt || now < state.sinceAt)) this.#state = IDLE
    return this.#state
  }

  #spend(cost: number, now: number): Lease | undefined {
    const lease = this.holdings.spend(cost, now)
    if (lease !== undefined && (lease.units < lease.checkBelow || now >= lease.checkAt)) this.#refill(lease, now)
    return lease
  }

  /** Buys the next lease in the background. */
  #refill(lease: Lease, now: number): void {
    const state = this.#stateAt(now)
    if (state.is === 'buying' || this.holdings.hasNext) lease.rest(lease.endsAt)
    else if (state.is !== 'idle') lease.rest(state.untilAt)
    else if (this.policy.seller.isReady() && this.#demand.isHigh(now)) this.#open(1)
  }

  /** Buys for a request for which no units are held. False if Redis must decide it. */
  #buy(cost: number, reply: Reply, now: number): boolean {
    this.#giveUpLate()
    const state = this.#stateAt(now)
    if (state.is === 'closed' || cost > this.policy.terms.largestCost || !this.#demand.isHigh(now)) return false
    this.#raiseDemand(now)
    const refusal = this.refusal(cost, now)
    if (refusal !== undefined) queueMicrotask(() => reply.resolve(refusal, performance.now()))
    else if (state.is === 'buying') state.purchase.join(cost, reply)
    else this.#open(cost).join(cost, reply)
    return true
  }

  /** Raises the demand if a lease was used up earlier than expected: the key is used faster than measured. */
  #raiseDemand(now: number): void {
    const lease = this.#fullSale
    this.#fullSale = undefined
    if (lease === undefined || lease.units > 0) return
    const lastedMs = now - lease.askedAt
    if (lastedMs < this.policy.terms.ttlMs * BOUGHT_AHEAD) this.#demand.exceed(lease.facts.sold, lastedMs)
  }

  #open(cost: number): Purchase {
    const purchase = new Purchase(`${this.policy.owner}.${++leases}`, cost)
    this.#state = { is: 'buying', purchase }
    this.policy.defer(() => this.#send(purchase))
    return purchase
  }

  #send(purchase: Purchase): void {
    const { terms, seller } = this.policy
    const now = this.policy.now()
    const { lease, cost, need, counted } = purchase
    purchase.sent = true
    purchase.askedAt = now
    purchase.offset = wallOffset()
    purchase.want = Math.min(terms.largestCost, need + this.#demand.expected(terms.ttlMs * BOUGHT_AHEAD, now))
    // No request waits for this purchase. After a ttl its units could not be spent any more.
    if (purchase.endsAt === Number.POSITIVE_INFINITY) {
      purchase.endsAt = performance.now() + (counted > 0 ? 1000 : terms.ttlMs)
    }
    const { want, endsAt } = purchase
    seller.buy(
      { key: this.key, lease, cost, need, want, unspent: this.holdings.takeUnspent(), endsAt },
      sale => this.#sold(purchase, sale),
      error => this.#failed(purchase, error),
    )
  }

  #sold(purchase: Purchase, sale: Sale): void {
    const now = this.policy.now()
    const { waiting, counted, want, askedAt } = purchase
    const { units, soldAt, lastsMs, limits } = sale
    const isExpected = this.#end(purchase)
    if (units === undefined) {
      // A window ends soon, or a request waits in line.
      if (isExpected) this.#state = { is: 'closed', sinceAt: now, untilAt: now + Math.max(1, lastsMs) }
      for (const { cost, reply } of waiting) this.policy.decide(this.key, cost, reply)
      return
    }
    this.account.answered(limits, soldAt, askedAt)
    const bought = units > 0 ? this.#leaseOf(purchase, units, sale, now) : undefined
    if (isExpected) {
      this.#fullSale = units < want ? undefined : bought
      if (units < want) this.#state = { is: 'pausing', sinceAt: now, untilAt: now + lastsMs * PAUSE }
    }
    // The sale has decided the requests made before the purchase was sent. This decision holds even if the answer is
    // late.
    let served = 0
    if (bought !== undefined) {
      let taken = 0
      while (served < counted && bought.units >= waiting[served].cost) {
        const { cost } = waiting[served++]
        bought.units -= cost
        taken += cost
      }
      this.#keep(bought, isExpected, now)
      for (const { cost, reply } of waiting.slice(0, served)) {
        taken -= cost
        this.#resolve(reply, bought, this.holdings.held(now) + taken, now)
      }
    }
    for (const one of waiting.slice(served)) this.#serve(one, purchase, sale, now)
  }

  #leaseOf({ lease, askedAt, offset }: Purchase, units: number, sale: Sale, now: number): Lease {
    const { soldAt, lastsMs, limits } = sale
    const facts = { key: this.key, lease, sold: units, soldAt, limits }
    const refillBelow = Math.max(1, Math.ceil(units / 4), this.#demand.expected(2 * (now - askedAt), now))
    this.policy.bought(units, lastsMs)
    return new Lease(facts, this.account, askedAt, askedAt + lastsMs * (1 - DRIFT), refillBelow, offset)
  }

  /** Nobody tidies up behind a purchase that was not expected any more: the key may be closed. */
  #keep(bought: Lease, isExpected: boolean, now: number): void {
    if (isExpected && bought.units > 0 && bought.isLive(now)) this.holdings.add(bought, now)
    else this.holdings.retire(bought)
    if (!isExpected) void this.holdings.returnUnspent()
  }

  /**
   * Answers a waiting request: spends from the lease, or else refuses with the wait of the server or of the pause, or
   * else lets it wait for the next purchase. One that joined later than the purchase was sent may be over by now.
   */
  #serve({ cost, reply }: WaitingRequest, purchase: Purchase, sale: Sale, now: number): void {
    if (reply.endsAt !== undefined && performance.now() > reply.endsAt + GRACE_MS) {
      reply.reject(new StoreError('its lease was bought too late', { settled: false }))
      return
    }
    const lease = this.#spend(cost, now)
    if (lease !== undefined) {
      this.#resolve(reply, lease, this.holdings.held(now), now)
    } else if (cost === purchase.cost && purchase.need > 0 && sale.limits.some(({ allowed }) => !allowed)) {
      reply.resolve(this.#refusals(sale, now), performance.now(), sale.soldAt)
    } else if (!this.#buy(cost, reply, now)) {
      this.policy.decide(this.key, cost, reply)
    }
  }

  /**
   * Rejects the requests that came before the purchase was sent. The others ask again while they have time: the
   * purchase was not given their deadlines.
   */
  #failed(purchase: Purchase, error: unknown): void {
    this.#end(purchase)
    const { waiting, counted } = purchase
    for (const { reply } of waiting.slice(0, counted)) reply.reject(error)
    const now = this.policy.now()
    const failedAt = performance.now()
    for (const { cost, reply } of waiting.slice(counted)) {
      if (reply.endsAt !== undefined && reply.endsAt <= failedAt) reply.reject(error)
      else if (!this.#buy(cost, reply, now)) this.policy.decide(this.key, cost, reply)
    }
  }

  /** Gives up a purchase without an answer; its units go back. */
  #giveUpLate(): void {
    const purchase = this.#purchase
    if (purchase?.sent && performance.now() > purchase.endsAt + PURCHASE_GRACE_MS) this.#end(purchase)
  }

  /** False if the purchase was not expected any more. */
  #end(purchase: Purchase): boolean {
    if (this.#purchase !== purchase) return false
    this.#state = IDLE
    this.#watchLease()
    return true
  }

  #watchLease(): void {
    if (this.#state.is !== 'buying' && !this.holdings.hasNext) this.holdings.first?.watch()
  }

  #verdicts(lease: Lease, held: number, now: number): readonly Verdict[] {
    return this.policy.terms.limits.map((limit, i) => lease.verdict(limit, i, held, now))
  }

  #refusals(sale: Sale, now: number): readonly Verdict[] {
    const { ttlMs } = this.policy.terms
    const held = this.holdings.held(now)
    // What this process holds is too little for this request, and comes back when its lease ends.
    const mostMs = held === 0 ? Number.POSITIVE_INFINITY : ttlMs
    return sale.limits.map((verdict, i) => capped({ ...verdict, remaining: this.account.remaining[i] + held }, mostMs))
  }

  #resolve(reply: Reply, lease: Lease, held: number, now: number): void {
    reply.resolve(this.#verdicts(lease, held, now), performance.now(), lease.facts.soldAt, lease)
  }
}
