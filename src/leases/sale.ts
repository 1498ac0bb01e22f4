import type { LeaseArithmetic } from '../limiter/algorithms/algorithm.js'
import { newNote, type Receipt, type RefundNote } from '../limiter/algorithms/refund-note.js'
import { algorithmOf, copyOf, measure, pack, type State, unpack } from '../limiter/algorithms/registry.js'
import { blockedVerdict, type Verdict, verdictOf } from '../limiter/core/decision.js'
import type { Limit } from '../limiter/core/limit.js'
import { capped, type LeaseFacts, type LeaseOrder, type Sale, type UnspentUnits } from './seller.js'
import type { LeaseTerms } from './terms.js'

// The arithmetic of sales, for stores that keep states: the same as lua/leases/leases.lua.

/** What is kept of a lease while its units may come back: see `SoldLeases`. */
interface SoldLease {
  readonly soldAt: number
  /** 0: they have come back. */
  readonly units: number
  readonly lastsMs: number
  /** Directly after the sale. */
  readonly remaining: number
  readonly resetAfterMs: number
}

/** The leases of a key under one limit, by name. */
export type SoldLeases = ReadonlyMap<string, SoldLease>

/** What a store keeps of one limit under a key, as far as sales change it. Its parts are replaced, never changed. */
export interface LeasedLimit {
  state: State | undefined
  note: RefundNote | undefined
  sold: SoldLeases
  /** How much longer the key is blocked, ms. */
  readonly blockedMs: number
}

/**
 * Sells units of a key: all limits sell the same, or none sells anything. First takes back what was left of the lease
 * before. An order that is repeated gets the lease that it has got before.
 */
export function sell(
  terms: LeaseTerms,
  kept: readonly LeasedLimit[],
  { lease, cost, need, want, unspent }: Omit<LeaseOrder, 'key' | 'endsAt'>,
  nowMs: number,
): Sale {
  const { limits, ttlMs } = terms
  if (unspent !== undefined) takeBack(terms, kept, unspent, nowMs)
  const before = limits.map((limit, i) => soldBefore(limit, kept[i].sold.get(lease)))
  if (before.every(sale => sale !== undefined)) return { ...before[0], limits: before.flatMap(sale => sale.limits) }
  const states = limits.map(({ algorithm }, i) => copyOf(algorithmOf(algorithm), kept[i].state))
  const rooms = limits.map((limit, i) => arithmeticOf(limit).room(limit, states[i], nowMs, ttlMs))
  const lastsMs = Math.min(...rooms.map(room => room.lastsMs))
  // A window that ends now is not worth a lease.
  if (lastsMs < 2) return { units: undefined, soldAt: nowMs, lastsMs: 0, limits: [] }
  const room = Math.min(...rooms.map(({ units }, i) => (kept[i].blockedMs > 0 ? 0 : units)))
  // A quarter of what is left, so that others find some; all of it shortly before a window ends, because what is left
  // then is lost.
  const share = Math.min(1, ttlMs / (4 * lastsMs))
  const units = Math.min(want, Math.max(Math.min(need, room), Math.floor(room * share)))
  limits.forEach((limit, i) => {
    const one = kept[i]
    // Corrected, if the clock ran back.
    if (units > 0 || one.state !== undefined) one.state = states[i]
    if (units > 0) {
      const note = ownNote(one.note)
      arithmeticOf(limit).buy(limit, states[i], nowMs, units, ttlMs, note)
      one.note = note
      const { remaining, resetAfterMs } = measure(limit, one.state, nowMs, 0).verdict
      one.sold = noted(terms, one.sold, lease, { soldAt: nowMs, units, lastsMs, remaining, resetAfterMs })
    }
  })
  const verdicts = limits.map((limit, i) => verdictAfter(terms, limit, kept[i], units < need ? cost : 0, lease, nowMs))
  return { units, soldAt: nowMs, lastsMs, limits: verdicts }
}

/**
 * Takes back the unspent units of a lease, once, under each limit that still lists it. If a lease was sold later than
 * now, the clock was set back: then the ages of all leases are unknown, and no units are taken back.
 */
export function takeBack(
  terms: LeaseTerms,
  kept: readonly LeasedLimit[],
  { facts, units }: UnspentUnits,
  nowMs: number,
): void {
  terms.limits.forEach((limit, i) => {
    const one = kept[i]
    const lease = one.sold.get(facts.lease)
    if ([...one.sold.values()].some(({ soldAt }) => soldAt > nowMs)) one.sold = new Map()
    else if (lease !== undefined && lease.units > 0 && lease.soldAt === facts.soldAt) {
      one.sold = new Map(one.sold).set(facts.lease, { ...lease, units: 0 })
      const back = arithmeticOf(limit).returned(limit, units, nowMs - lease.soldAt)
      if (back === 0 || one.state === undefined) return
      const algorithm = algorithmOf(limit.algorithm)
      // A copy may share its entries with the state, and `giveBack` changes entries in place.
      const state = unpack(algorithm, pack(algorithm, one.state))
      const note = ownNote(one.note)
      algorithm.giveBack(limit, state, nowMs, back, { ...receiptOf(terms, facts, i), leased: true }, note)
      one.state = state
      one.note = note
    }
  })
}

/** What the lease was charged under a limit. */
export function receiptOf({ limits, ttlMs }: LeaseTerms, facts: LeaseFacts, place: number): Receipt {
  const { remaining, resetAfterMs } = facts.limits[place]
  const chargedAt = arithmeticOf(limits[place]).chargedAt(facts.soldAt, ttlMs)
  return { chargedAt, cost: facts.sold, remaining, resetAfterMs }
}

/**
 * In how many ms, at most one ttl, units come back from leases of others than `owner` at the latest; 0: none are out. A
 * process gives back what it has not spent within a ttl after the end of a lease, or within 50 ms.
 */
export function unitsOutMs({ ttlMs }: LeaseTerms, sold: SoldLeases, owner: string, nowMs: number): number {
  const lastsMs = ttlMs + Math.max(ttlMs, 50)
  let newestAt = Number.NEGATIVE_INFINITY
  for (const [name, { soldAt, units }] of sold) {
    if (units > 0 && soldAt <= nowMs && ownerOf(name) !== owner) newestAt = Math.max(newestAt, soldAt)
  }
  return Math.max(0, Math.min(ttlMs, newestAt + lastsMs - nowMs))
}

/** The name of a lease begins with its owner and a dot. */
function ownerOf(lease: string): string {
  return lease.slice(0, lease.indexOf('.'))
}

function soldBefore(limit: Limit, lease: SoldLease | undefined): Sale | undefined {
  if (lease === undefined) return undefined
  const { soldAt, units, lastsMs, remaining, resetAfterMs } = lease
  return { units, soldAt, lastsMs, limits: [verdictOf(limit, remaining, 0, resetAfterMs)] }
}

/** After a sale: when `cost` units fit, no later than units come back from others. */
function verdictAfter(
  terms: LeaseTerms,
  limit: Limit,
  { state, sold, blockedMs }: LeasedLimit,
  cost: number,
  lease: string,
  nowMs: number,
): Verdict {
  const { verdict } = measure(limit, state, nowMs, 0)
  const mostMs = unitsOutMs(terms, sold, ownerOf(lease), nowMs) || Number.POSITIVE_INFINITY
  const { allowed, retryAfterMs } = capped(measure(limit, state, nowMs, cost).verdict, mostMs)
  const asked = { ...verdict, allowed, retryAfterMs }
  return blockedMs > 0 ? blockedVerdict(asked, blockedMs) : asked
}

/** Adds a lease, and forgets those whose units are back or come too late. */
function noted({ ttlMs }: LeaseTerms, sold: SoldLeases, name: string, lease: SoldLease): SoldLeases {
  const since = lease.soldAt - ttlMs - LEASES_KEPT_MS
  const kept = [...sold].filter(([, { soldAt, units }]) => soldAt > lease.soldAt || (units > 0 && soldAt > since))
  return new Map(kept).set(name, lease)
}

/** A sold lease is kept for a ttl and so much longer: until its units have come back, or will not any more. */
export const LEASES_KEPT_MS = 10_000

function arithmeticOf({ algorithm }: Limit): LeaseArithmetic<State> {
  return algorithmOf(algorithm).lease!
}

function ownNote(note: RefundNote | undefined): RefundNote {
  return note === undefined ? newNote() : { ...note, gaps: [...note.gaps] }
}
