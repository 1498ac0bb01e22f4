import { afterIo } from '../limiter/core/clock.js'
import type { Verdict } from '../limiter/core/decision.js'
import type { Limit } from '../limiter/core/limit.js'
import { CHANNELS, type Observer, tell } from '../limiter/core/observer.js'
import { processId } from '../limiter/core/short-key.js'
import type { BoundPolicy, CountedLimit, Keys, Reply, Standing, Verb } from '../limiter/port.js'
import type { Charge } from '../limiter/store.js'
import { Account } from './account.js'
import { BusyKeys } from './demand.js'
import type { Lease, PolicyLeases } from './holdings.js'
import { LeasedKey } from './leased-key.js'
import { capped, type LeaseSeller } from './seller.js'
import { type LeaseSettings, type LeaseTerms, leaseTerms, returnable } from './terms.js'

/** Above this number of busy keys, Redis decides the others. */
const MOST_KEYS = 10_000
const LEAST_TIDY_MS = 50

interface LeaseBookParts extends Omit<PolicyLeases, 'owner' | 'bought' | 'expired'> {
  /** The books that hold leases: this one adds and deletes itself. */
  readonly busy: Set<LeaseBook>
}

let books = 0

/** The keys of one policy that this process leases. */
export class LeaseBook implements PolicyLeases {
  readonly owner = `${processId()}-${++books}`
  readonly terms: LeaseTerms
  readonly seller: LeaseSeller
  readonly now: () => number
  readonly defer: PolicyLeases['defer']
  readonly decide: PolicyLeases['decide']
  readonly #busy: Set<LeaseBook>
  readonly #keys = new Map<string, LeasedKey>()
  /**
   * Accounts to which charges without an answer belong. A key may become busy meanwhile, and buy units before they are
   * charged.
   */
  readonly #charging = new Map<string, Account>()
  /** The key of the last spend. */
  #last: LeasedKey | undefined
  readonly #busyKeys: BusyKeys
  readonly #observers = new Set<Observer>([CHANNELS])
  #tidying: ReturnType<typeof setInterval> | undefined

  constructor({ terms, seller, now, defer, decide, busy }: LeaseBookParts) {
    this.terms = terms
    this.seller = seller
    this.now = now
    this.defer = defer
    this.decide = decide
    this.#busy = busy
    this.#busyKeys = new BusyKeys(terms.ttlMs)
  }

  /** Reports purchases and expired units to the observer. */
  observe(observer: Observer): void {
    if (observer.leaseBought !== undefined || observer.leaseExpired !== undefined) this.#observers.add(observer)
  }

  /** Spends from the lease of a key; undefined if none has enough units. */
  spend(key: string, cost: number, now: number): Lease | undefined {
    let leased = this.#last
    if (leased === undefined || leased.key !== key) {
      leased = this.#keys.get(key)
      if (leased === undefined) return undefined
      this.#last = leased
    }
    return leased.spend(cost, now)
  }

  /** The key, if this process leases it. */
  leasedKey(key: string): LeasedKey | undefined {
    return this.#keys.get(key)
  }

  /** What is known of a key; undefined if this process neither leases it nor charges it. */
  accountOf(key: string): Account | undefined {
    return this.#keys.get(key)?.account ?? this.#charging.get(key)
  }

  /** As `Account.charge`. */
  charge(key: string, units: number): (standing?: Standing) => void {
    const account = this.accountOf(key) ?? new Account(this.terms.ttlMs)
    // A client that never settles its calls must not fill the memory.
    if (this.#charging.size >= MOST_KEYS && !this.#charging.has(key)) {
      for (const oldest of this.#charging.keys()) {
        this.#charging.delete(oldest)
        break
      }
    }
    this.#charging.set(key, account)
    const answered = account.charge(units, this.now())
    return standing => {
      answered(standing)
      if (!account.isCharging && this.#charging.get(key) === account) this.#charging.delete(key)
    }
  }

  /** Units of a key that this process holds. */
  held(key: string): number {
    return this.#keys.get(key)?.holdings.held(this.now()) ?? 0
  }

  /** The refusal of a request without a lease, while this process must wait before it buys again. */
  refusal(key: string, cost: number): readonly Verdict[] | undefined {
    if (cost > this.terms.largestCost) return undefined
    return this.#keys.get(key)?.refusal(cost, this.now())
  }

  /** Takes over a request without a remembered denial. False if Redis must decide it. */
  ask(key: string, cost: number, reply: Reply): boolean {
    const now = this.now()
    return (this.#keys.get(key) ?? this.#warm(key, now))?.ask(cost, reply, now) ?? false
  }

  /**
   * The reply to a request that Redis decides without a lease: it hears what this process holds besides. The script
   * that decides does not look for leases, which would cost every decision: only after a refusal a second call asks for
   * how long units may be out.
   */
  beside(verb: Verb, key: string, reply: Reply): Reply {
    const { ttlMs } = this.terms
    const askedAt = this.now()
    return hearing(reply, (given, answeredAt, decidedAt, origin) => {
      const leased = this.#keys.get(key)
      const held = leased?.holdings.held(this.now()) ?? 0
      const isDecided = verb === 'consume' && typeof decidedAt === 'number'
      if (isDecided) leased?.account.answered(given, decidedAt, askedAt)
      const verdicts = isDecided ? (leased?.withRemaining(given) ?? given) : withMore(given, held)
      const answer = (mostMs: (place: number) => number) => {
        const all = verdicts.map((verdict, i) => capped(verdict, mostMs(i)))
        reply.resolve(all, answeredAt, decidedAt, origin)
      }
      if (verdicts.every(verdict => verdict === capped(verdict, ttlMs))) {
        reply.resolve(verdicts, answeredAt, decidedAt, origin)
      } else if (held > 0) answer(() => ttlMs)
      else {
        this.seller.unitsOut(key, this.owner, reply.endsAt).then(
          outMs => answer(place => outMs[place] || Number.POSITIVE_INFINITY),
          () => answer(() => ttlMs),
        )
      }
    })
  }

  /** The reply to a look at nothing, in place of one at units that this process holds. */
  less(cost: number, reply: Reply): Reply {
    return hearing(reply, (verdicts, ...when) => reply.resolve(withMore(verdicts, -cost), ...when))
  }

  /** Puts units of a settled decision back into their lease; once the lease has ended, gives them back to Redis. */
  async settle(lease: Lease, units: number, endsAt: number | undefined): Promise<void> {
    const { facts, askedAt } = lease
    const leased = this.#keys.get(facts.key)
    if (leased?.holdings.putBack(lease, units)) return
    leased?.wake()
    await this.seller.settle(facts, returnable(this.terms, units, this.now() - askedAt), endsAt)
  }

  /** Gives back all unspent units. */
  async close(): Promise<void> {
    this.#rest()
    const keys = [...this.#keys.values()]
    this.#keys.clear()
    this.#last = undefined
    await Promise.all(keys.map(leased => leased.close()))
  }

  bought(units: number, lastsMs: number): void {
    for (const observer of this.#observers) {
      for (const limit of this.terms.limits) tell(observer, 'leaseBought', { limit, units, ttlMs: lastsMs })
    }
  }

  expired(units: number): void {
    for (const observer of this.#observers) {
      for (const limit of this.terms.limits) tell(observer, 'leaseExpired', { limit, units })
    }
  }

  #warm(key: string, now: number): LeasedKey | undefined {
    if (!this.#busyKeys.hit(key, now) || this.#keys.size >= MOST_KEYS) return undefined
    const leased = new LeasedKey(key, this, this.accountOf(key) ?? new Account(this.terms.ttlMs), now)
    this.#keys.set(key, leased)
    this.#busy.add(this)
    // Ended leases go back even if no further request comes.
    this.#tidying ??= setInterval(() => this.tidy(), Math.max(LEAST_TIDY_MS, this.terms.ttlMs))
    this.#tidying.unref?.()
    return leased
  }

  /** The book holds no leases any more. */
  #rest(): void {
    clearInterval(this.#tidying)
    this.#tidying = undefined
    this.#busy.delete(this)
  }

  /** Gives back ended leases, and drops keys that are no longer busy. */
  tidy(): void {
    const now = this.now()
    this.#last = undefined
    for (const [key, leased] of this.#keys) if (!leased.tidy(now)) this.#keys.delete(key)
    if (this.#keys.size === 0) this.#rest()
  }
}

/** The parts of the store that leases use. */
interface LeasesParts {
  readonly settings: LeaseSettings
  readonly sellerOf: (terms: LeaseTerms, limiter: string | undefined) => LeaseSeller
  /** The process's own clock, ms. */
  readonly now: () => number
}

interface KnownBook {
  readonly limits: readonly Limit[]
  readonly limiter: string | undefined
  readonly book: LeaseBook | undefined
}

/** The leases of a store: one book for each policy. */
export class Leases {
  readonly #parts: LeasesParts
  readonly #known = new WeakMap<Limit, KnownBook[]>()
  /** Books that hold leases; the others may be garbage collected with their policy. */
  readonly #busy = new Set<LeaseBook>()

  constructor(parts: LeasesParts) {
    this.#parts = parts
  }

  /**
   * The book of a policy over what it is without leases; undefined if Redis decides. Throws `PolicyError` if leases
   * were requested for limits that cannot be leased.
   */
  bookOf(counted: readonly CountedLimit[], store: BoundPolicy): LeaseBook | undefined {
    const known = this.#find(counted)
    if (known !== undefined) return known.book
    const [{ limit, limiter }] = counted
    const limits = counted.map(({ limit }) => limit)
    const book = this.#newBook(limits, limiter, store)
    this.#known.set(limit, [...(this.#known.get(limit) ?? []), { limits, limiter, book }])
    return book
  }

  /** Redis has granted a request that waited in line: the verdicts with the units that this process holds besides. */
  granted(charges: readonly Charge[], verdicts: readonly Verdict[], grantedAt: number): readonly Verdict[] {
    const leased = this.#bookOfCharges(charges)?.leasedKey(charges[0].key)
    leased?.account.granted(verdicts, grantedAt, this.#parts.now())
    return leased?.withRemaining(verdicts) ?? verdicts
  }

  /** An answer to the line of these charges was read: see `Account`. */
  lineAnswered(charges: readonly Charge[]): void {
    this.#bookOfCharges(charges)?.accountOf(charges[0].key)?.lineAnswered()
  }

  /** These keys are reset or blocked: ends their leases. */
  end(keys: Keys): void {
    for (const book of this.#busy) for (const key of listOf(keys)) book.leasedKey(key)?.drop()
  }

  /** Units of these keys were given back. */
  wake(keys: Keys): void {
    for (const book of this.#busy) for (const key of listOf(keys)) book.leasedKey(key)?.wake()
  }

  /** Gives back all unspent units. */
  async close(): Promise<void> {
    await Promise.all([...this.#busy].map(book => book.close()))
  }

  #bookOfCharges(charges: readonly Charge[]): LeaseBook | undefined {
    const [{ key }] = charges
    if (charges.length > 1 && charges.some(charge => charge.key !== key)) return undefined
    return this.#find(charges)?.book
  }

  #find(charges: readonly CountedLimit[]): KnownBook | undefined {
    const [{ limit, limiter }] = charges
    return this.#known
      .get(limit)
      ?.find(
        ({ limits, limiter: name }) =>
          name === limiter &&
          limits.length === charges.length &&
          limits.every((limit, i) => limit === charges[i].limit),
      )
  }

  #newBook(limits: readonly Limit[], limiter: string | undefined, store: BoundPolicy): LeaseBook | undefined {
    const { settings, sellerOf, now } = this.#parts
    const terms = leaseTerms(limits, settings)
    if (terms === undefined) return undefined
    const book: LeaseBook = new LeaseBook({
      terms,
      seller: sellerOf(terms, limiter),
      now,
      defer: afterIo,
      decide: (key, cost, reply) => store.decide('consume', key, cost, book.beside('consume', key, reply)),
      busy: this.#busy,
    })
    return book
  }
}

function listOf(keys: Keys): readonly string[] {
  return typeof keys === 'string' ? [keys] : keys
}

/** A reply that hears verdicts in place of another one. */
function hearing(reply: Reply, resolve: Reply['resolve']): Reply {
  return {
    endsAt: reply.endsAt,
    movesTo: server => reply.movesTo?.(server),
    resolve,
    reject: error => reply.reject(error),
  }
}

function withMore(verdicts: readonly Verdict[], units: number): readonly Verdict[] {
  if (units === 0) return verdicts
  return verdicts.map(verdict => ({ ...verdict, remaining: Math.max(0, verdict.remaining + units) }))
}
