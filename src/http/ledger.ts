import { type Decision, strictest } from '../limiter/core/decision.js'
import type { Limit } from '../limiter/core/limit.js'
import { ExistingObject } from '../limiter/core/maps.js'
import type { LimiterKey } from '../limiter/key.js'
import type { RateLimiter } from '../limiter/rate-limiter.js'
import type { Places } from './concurrency/process-places.js'
import type { Fields, Report } from './headers.js'
import { sameCount } from './same-count.js'

/** What a rate limit has decided on a request. */
export interface Charge {
  readonly limiter: RateLimiter
  readonly key: LimiterKey
  readonly decision: Decision
}

/** A place that a concurrency limit has given to a request. */
interface HeldPlace {
  readonly places: Places
  readonly key: string
}

/** What a limit tells the client of a request. */
interface Told {
  /** The strictest decision so far, to store on the request; undefined: no rate limit has decided. */
  readonly decision: Decision | undefined
  /** To set on the response. */
  readonly fields: Fields
  /** Other names for limits of this report, by name; undefined: all keep theirs. */
  readonly names: ReadonlyMap<string, string> | undefined
}

/** The ledger of a request, in a private field of an object that each request has and that services do not replace. */
class StoredLedger extends ExistingObject {
  #ledger: Ledger | undefined

  static of(holder: object): Ledger {
    const kept = #ledger in holder ? holder : (new StoredLedger(holder) as StoredLedger)
    kept.#ledger ??= new Ledger()
    return kept.#ledger
  }

  static forget(holder: object): void {
    if (#ledger in holder) holder.#ledger = undefined
  }
}

/**
 * Of a request of Node, that is the list of its raw fields: Express changes the prototype of each request, and adding a
 * field to such an object costs more than the whole decision, as an entry in a WeakMap does.
 */
function holderOf(request: object): object {
  return (request as { rawHeaders?: object }).rawHeaders ?? request
}

/**
 * What the limits have decided on one request so far, and what they tell its client: all middlewares that the request
 * passes write into it, and none reads back what another has set on the response.
 */
export class Ledger {
  /** The ledger of a request, created by the first limit that it passes. */
  static of(request: object): Ledger {
    return StoredLedger.of(holderOf(request))
  }

  /** For a request that is answered a second time. */
  static forget(request: object): void {
    StoredLedger.forget(holderOf(request))
  }

  /** Most requests pass one limit: the first charge needs no list. */
  #charge: Charge | undefined
  #charges: Charge[] | undefined
  #places: HeldPlace[] | undefined
  /** The strictest decision so far. */
  #strictest: Decision | undefined
  /** All fields so far, and whether their lists name limits, as in draft 8. */
  #fields: Fields | undefined
  #named = false
  /** The names of the limits in the lists. */
  #names: readonly string[] | undefined

  /**
   * A limit has decided; it is written before the next one decides. Returns the limit for which the request has been
   * charged before, if this charge counts it a second time.
   */
  add(charge: Charge): Limit | undefined {
    if (this.#charge === undefined) {
      this.#charge = charge
      return undefined
    }
    const twice = charge.decision.verdicts.find(({ limit }) =>
      this.#charged.some(earlier => counts(earlier, charge, limit)),
    )
    this.#charges ??= [this.#charge]
    this.#charges.push(charge)
    return twice?.limit
  }

  /** All units of a charge were given back. */
  remove(charge: Charge): void {
    const others = this.#charged.filter(other => other !== charge)
    this.#charge = others[0]
    this.#charges = others.length > 0 ? others : undefined
  }

  get #charged(): readonly Charge[] {
    return this.#charges ?? (this.#charge === undefined ? [] : [this.#charge])
  }

  /** A concurrency limit has given the request a place. */
  hold(place: HeldPlace): void {
    this.#places ??= []
    this.#places.push(place)
  }

  /** Whether the request has a place of this key. */
  holds(places: Places, key: string): boolean {
    return this.#places?.some(held => held.key === key && held.places.isSame(places)) === true
  }

  /**
   * What to tell the client beside what earlier limits of the response have told: lists that name limits are extended;
   * where only one limit fits, and where the lists are of different drafts, the limit with the strictest decision
   * reports. `decision`: undefined for a concurrency limit, which has no numbers.
   */
  tell<Decided extends Decision | undefined>(report: Report<Decided>, decision: Decided): Told {
    if (this.#fields === undefined) {
      // The first limit, which for most requests is the only one.
      this.#strictest = decision
      this.#names = report.names
      this.#named = report.names !== undefined
      this.#fields = report.of(decision, undefined)
      return { decision, fields: this.#fields, names: undefined }
    }
    const before = this.#strictest
    let isStrictest = decision !== undefined
    if (before !== undefined && decision !== undefined) isStrictest = strictest([before, decision]) === decision
    if (isStrictest) this.#strictest = decision
    const names = report.names === undefined ? undefined : this.#name(report.names)
    const fields = this.#add(this.#fields, report.of(decision, names), report.names !== undefined, isStrictest)
    return { decision: this.#strictest, fields, names }
  }

  /** Other names for those that earlier limits of the response have taken. */
  #name(names: readonly string[]): ReadonlyMap<string, string> | undefined {
    const earlier = this.#names ?? []
    const taken = new Set([...earlier, ...names])
    const others = new Map<string, string>()
    for (const name of names) {
      if (!earlier.includes(name)) continue
      let number = 2
      while (taken.has(`${name}-${number}`)) number++
      others.set(name, `${name}-${number}`)
      taken.add(`${name}-${number}`)
    }
    this.#names = [...taken]
    return others.size > 0 ? others : undefined
  }

  #add(before: Fields, own: Fields, named: boolean, isStrictest: boolean): Fields {
    const added: Fields = {}
    for (const name in own) {
      const earlier = before[name]
      if (earlier === undefined) added[name] = own[name]
      else if (named && this.#named && LISTS.includes(name)) added[name] = `${earlier}, ${own[name]}`
      else if (isStrictest) added[name] = own[name]
    }
    if (added['RateLimit-Policy'] !== undefined) this.#named = named
    this.#fields = { ...before, ...added }
    return added
  }
}

const LISTS: readonly string[] = ['RateLimit-Policy', 'RateLimit']

/** Whether an earlier charge has spent from the same count as a charge under one of its limits. */
function counts(earlier: Charge, charge: Charge, limit: Limit): boolean {
  const key = keyUnder(charge, limit)
  return earlier.decision.verdicts.some(
    ({ limit: other }) => keyUnder(earlier, other) === key && sameCount(earlier.limiter, other, charge.limiter, limit),
  )
}

function keyUnder({ key, decision }: Charge, { name }: Limit): string | undefined {
  return typeof key === 'string' ? decision.key : key[name]
}
