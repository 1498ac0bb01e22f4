import { setImmediate } from 'node:timers'
import type { Verdict } from '../../../core/decision.js'
import type { Limit } from '../../../core/limit.js'
import type { Asker, Charge } from '../../store.js'
import { LeaseBook } from './lease-book.js'
import type { LeaseSettings } from './lease-options.js'
import { RedisSeller, type RedisSellerParts } from './redis-seller.js'
import { leaseTerms } from './terms.js'

/** The parts of the store that leases use. */
export interface LeasesParts extends Omit<RedisSellerParts, 'terms' | 'limiter'> {
  readonly settings: LeaseSettings
  /** The process's own clock, ms. */
  readonly now: () => number
  /** Asks Redis, regardless of leases. */
  readonly askRedis: (verb: 'consume' | 'peek', charges: readonly Charge[], cost: number, asker: Asker) => void
  /** Listens for resets and blocks for `ms` more. */
  readonly hear: (ms: number) => void
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

  /** The book of a policy; undefined if Redis decides. Throws `PolicyError` if leases were requested for limits that cannot be leased. */
  bookOf(limits: readonly Limit[], limiter: string | undefined): LeaseBook | undefined {
    const known = this.#known.get(limits[0]) ?? []
    for (const one of known) if (one.limiter === limiter && isSame(one.limits, limits)) return one.book
    const book = this.#newBook(limits, limiter)
    this.#known.set(limits[0], [...known, { limits, limiter, book }])
    return book
  }

  /** Takes over a request. False if Redis must decide it. */
  ask(verb: 'consume' | 'peek', charges: readonly Charge[], cost: number, asker: Asker): boolean {
    const book = this.#bookOfCharges(charges)
    const [{ key }] = charges
    if (book === undefined) return false
    if (verb === 'consume') return cost > 0 && book.ask(key, cost, asker)
    const held = book.held(key, this.#parts.now())
    if (held === 0) return false
    this.#parts.askRedis(verb, charges, held >= cost ? 0 : cost, besides(asker, held, cost))
    return true
  }

  /** The asker for a request that Redis decides: see `LeaseBook`. */
  beside(verb: 'consume' | 'peek', charges: readonly Charge[], asker: Asker): Asker {
    return this.#bookOfCharges(charges)?.beside(verb, charges[0].key, asker) ?? asker
  }

  /** Redis has granted a request that waited in line: the verdicts with the units that this process holds besides. */
  told(charges: readonly Charge[], verdicts: readonly Verdict[], grantedAt: number): readonly Verdict[] {
    const [{ key }] = charges
    const book = this.#bookOfCharges(charges)
    return book?.told(key, verdicts, grantedAt, book.mark(key)) ?? verdicts
  }

  /** Units were charged by a settlement. */
  charged(charges: readonly Charge[], units: number): void {
    this.#bookOfCharges(charges)?.charged(charges[0].key, units)
  }

  /** Ends the leases of these keys before a reset or block. */
  end(charges: readonly Charge[]): void {
    for (const { key } of charges) this.changed(key, true)
  }

  /** The key was reset or blocked (`endsLeases`), here or in another process, or units of it were given back. Undefined: any key may be affected. */
  changed(key: string | undefined, endsLeases: boolean): void {
    for (const book of this.#busy) {
      if (key === undefined) book.changedAll(endsLeases)
      else book.changed(key, endsLeases)
    }
  }

  /** Gives back all unspent units. */
  async close(): Promise<void> {
    await Promise.all([...this.#busy].map(book => book.close()))
  }

  #bookOfCharges(charges: readonly Charge[]): LeaseBook | undefined {
    const [{ key, limit, limiter }] = charges
    if (charges.length > 1 && charges.some(charge => charge.key !== key)) return undefined
    const known = this.#known.get(limit)
    if (known === undefined) return undefined
    for (const { limits, limiter: name, book } of known) {
      if (
        name === limiter &&
        limits.length === charges.length &&
        charges.every((charge, i) => charge.limit === limits[i])
      ) {
        return book
      }
    }
    return undefined
  }

  #newBook(limits: readonly Limit[], limiter: string | undefined): LeaseBook | undefined {
    const { settings, now, askRedis, hear, ...rest } = this.#parts
    const terms = leaseTerms(limits, settings)
    if (terms === undefined) return undefined
    const seller = new RedisSeller({ ...rest, terms, limiter })
    return new LeaseBook({
      terms,
      seller,
      now,
      defer: send => {
        hear(2 * terms.ttlMs)
        setImmediate(send)
      },
      busy: (book, isBusy) => {
        if (isBusy) this.#busy.add(book)
        else this.#busy.delete(book)
      },
      decide: (key, cost, asker) => {
        const charges = limits.map(limit => ({ key, limit, limiter }))
        askRedis('consume', charges, cost, asker)
      },
    })
  }
}

function isSame(a: readonly Limit[], b: readonly Limit[]): boolean {
  return a.length === b.length && a.every((limit, i) => limit === b[i])
}

/** Adds the units that this process holds to the remaining units that Redis reports for a `peek`. */
function besides(asker: Asker, held: number, cost: number): Asker {
  const more = held - (held >= cost ? cost : 0)
  return {
    endsAt: asker.endsAt,
    asks: server => asker.asks?.(server),
    resolve: (verdicts, answeredAt, decidedAt) => {
      const both = verdicts.map((verdict): Verdict => ({ ...verdict, remaining: verdict.remaining + more }))
      asker.resolve(both, answeredAt, decidedAt)
    },
    reject: error => asker.reject(error),
  }
}
