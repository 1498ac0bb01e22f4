import { resetNote } from '../../algorithms/algorithm.js'
import type { State } from '../../algorithms/registry.js'
import type { Clock } from '../../core/clock.js'
import { blockedVerdict, type Verdict } from '../../core/decision.js'
import type { Limit } from '../../core/limit.js'
import { ClockSteps } from '../clock-steps.js'
import { type Booking, type Charge, type ChargeReceipt, DEFAULT_LIMITER, type Store } from '../store.js'
import { Line, turnAfterMs, type Waiter } from './line.js'
import { type MemoryStoreOptions, parseMemoryStoreOptions } from './options.js'
import { Sweeper } from './sweeper.js'
import { MemoryTable } from './table.js'

export type { MemoryStoreOptions } from './options.js'

/** What one charge amounts to, before anything is written. */
interface Measured {
  readonly table: MemoryTable
  readonly slot: number | undefined
  readonly verdict: Verdict
  readonly next: State | undefined
}

/**
 * State in this process: exact for one process, and needs nothing else. Every call is synchronous. Expired keys are swept a few
 * at a time, by the traffic itself and by an unreferenced timer that keeps no process alive.
 */
export class MemoryStore implements Store {
  readonly clock: Clock
  /** When it was last asked, by its clock: reading the clock takes longer than deciding does. */
  decidedAt = 0
  readonly #sweeper: Sweeper
  readonly #steps = new ClockSteps()
  readonly #tables = new Map<string, MemoryTable>()
  readonly #known = new WeakMap<Limit, MemoryTable[]>()
  #last: MemoryTable | undefined
  #lastLimit: Limit | undefined

  constructor(options: MemoryStoreOptions = {}) {
    const { clock, maxKeys } = parseMemoryStoreOptions(options)
    this.clock = clock
    this.#sweeper = new Sweeper(this.#tables, maxKeys, () => Math.floor(this.clock.now()))
  }

  /** Keys and blocks held, each counted once per limit. */
  get size(): number {
    return this.#sweeper.size
  }

  consume(charges: readonly Charge[], cost: number): readonly Verdict[] {
    if (charges.length === 1) {
      const { key, limit, limiter } = charges[0]
      return [this.consumeOne(key, limit, limiter, cost)]
    }
    const nowMs = this.#now()
    const measured = this.#measureAll(charges, nowMs, cost)
    const spent = cost > 0 && measured.every(({ verdict }) => verdict.allowed)
    return charges.map((charge, i) => {
      // To make room for one of its keys, another one may have been evicted since: it is remembered anew.
      const slot = measured[i].table.slotOf(charge.key)
      return this.#commit(charge, { ...measured[i], slot }, spent)
    })
  }

  /**
   * What `consume` does for several charges, without what only they need: most traffic comes this way.
   *
   * @internal For limiters of one limit.
   */
  consumeOne(key: string, limit: Limit, limiter: string | undefined, cost: number): Verdict {
    const nowMs = this.#now()
    const table = this.#table(limit, limiter)
    if (table.blocks !== undefined) return this.#consumeUnblocked({ key, limit, limiter }, nowMs, cost)
    const slot = table.slotOf(key)
    if (slot !== undefined) return table.consume(slot, limit, nowMs, cost)
    const { verdict, next } = table.algorithm.measure(limit, undefined, nowMs, cost)
    if (next !== undefined) this.#sweeper.insert(table, key, next, limit)
    return verdict
  }

  peek(charges: readonly Charge[], cost: number): readonly Verdict[] {
    return this.#measureAll(charges, this.#now(), cost).map(({ verdict }) => verdict)
  }

  refund(charges: readonly Charge[], cost: number): void {
    if (cost === 0) return
    const nowMs = this.#now()
    for (const charge of charges) {
      const { key, limit } = charge
      const table = this.#table(limit, charge.limiter)
      const { notes } = table
      const note = notes.of(key, nowMs)
      this.#replan(charge, nowMs, 0, state => table.algorithm.refund(limit, state, nowMs, cost, note))
      notes.keep(key, note, limit, nowMs)
    }
  }

  giveBack(receipts: readonly ChargeReceipt[], units: number): void {
    if (units === 0) return
    const nowMs = this.#now()
    for (const receipt of receipts) {
      const { key, limit, chargedAt } = receipt
      if (this.#steps.isDoubtful(chargedAt)) continue
      const { table, slot, state } = this.#find(receipt)
      if (slot === undefined || state === undefined) continue
      const { notes } = table
      const note = notes.of(key, nowMs)
      // In place: a log may be long.
      const giveBack = (state: State | undefined) => {
        if (state !== undefined) table.algorithm.inPlace.giveBack(limit, state, nowMs, units, receipt, note)
        return state
      }
      if (table.lines?.has(key)) this.#replan(receipt, nowMs, 0, giveBack)
      else table.mend(slot, giveBack(state)!)
      notes.keep(key, note, limit, nowMs)
    }
  }

  charge(charges: readonly Charge[], cost: number): void {
    if (cost === 0) return
    const nowMs = this.#now()
    for (const charge of charges) {
      const { table, slot, state } = this.#find(charge)
      const next = table.algorithm.spend(charge.limit, state, nowMs, cost)
      if (next !== undefined) this.#write(charge, table, slot, next)
    }
  }

  block(charges: readonly Charge[], forMs: number): void {
    const nowMs = this.#now()
    for (const { key, limit, limiter } of charges) {
      const table = this.#table(limit, limiter)
      if (forMs > 0) this.#sweeper.block(table, key, nowMs + forMs)
      else this.#sweeper.unblock(table, key)
    }
  }

  reset(charges: readonly Charge[]): void {
    const nowMs = this.#now()
    for (const charge of charges) {
      const { key, limit, limiter } = charge
      const table = this.#table(limit, limiter)
      const isUsed = table.slotOf(key) !== undefined
      this.#sweeper.remove(table, key)
      if (isUsed && table.algorithm.inPlace.notesResets) table.notes.keep(key, resetNote(nowMs), limit, nowMs)
      this.#replan(charge, nowMs, 0, state => state)
    }
  }

  book(charge: Charge, cost: number, maxWaitMs: number, moved: (waitMs: number) => void): Booking {
    const nowMs = this.#now()
    const { limit, key } = charge
    const { table, slot, state } = this.#find(charge)
    const turnMs = turnAfterMs(table.algorithm.measure(limit, state, nowMs, cost).verdict, cost)
    const blockedMs = turnMs < Number.POSITIVE_INFINITY ? (table.blocks?.remainingMs(key, nowMs) ?? 0) : 0
    const waitMs = Math.max(turnMs, blockedMs)
    const inTime = waitMs <= maxWaitMs && waitMs < Number.POSITIVE_INFINITY
    if (!inTime || blockedMs > 0 || table.algorithm.book === undefined) {
      const { verdict } = table.algorithm.measure(limit, state, nowMs, 0)
      const refusal = { ...verdict, allowed: false, retryAfterMs: waitMs }
      const told = blockedMs > 0 ? blockedVerdict(refusal, blockedMs) : refusal
      return { verdict: told, waitMs, blockedMs, cancel() {}, close() {} }
    }
    const next = table.algorithm.book(limit, state, nowMs, cost, waitMs)
    this.#write(charge, table, slot, next)
    const waiter = { limit, cost, turnAt: nowMs + waitMs, moved }
    const line = waitMs > 0 ? this.#lineOf(table, key) : undefined
    line?.prune(nowMs)
    line?.add(waiter)
    return {
      verdict: table.algorithm.measure(limit, next, nowMs, 0).verdict,
      waitMs,
      blockedMs,
      cancel: () => (line ? this.#cancel(charge, line, waiter) : this.refund([charge], cost)),
      close: () => line && this.#leave(table, key, line, waiter),
    }
  }

  /** Forgets everything and stops sweeping. */
  close(): void {
    this.#sweeper.close()
    this.#last = undefined
  }

  #now(): number {
    const nowMs = Math.floor(this.clock.now())
    this.#steps.note(nowMs)
    this.decidedAt = nowMs
    return nowMs
  }

  #consumeUnblocked(charge: Charge, nowMs: number, cost: number): Verdict {
    const measured = this.#measure(charge, nowMs, cost)
    return this.#commit(charge, measured, cost > 0 && measured.verdict.allowed)
  }

  #find({ key, limit, limiter }: Charge) {
    const table = this.#table(limit, limiter)
    const slot = table.slotOf(key)
    return { table, slot, state: slot === undefined ? undefined : table.read(slot) }
  }

  #measure(charge: Charge, nowMs: number, cost: number): Measured {
    const { table, slot, state } = this.#find(charge)
    const measured = table.algorithm.measure(charge.limit, state, nowMs, cost)
    const blockedMs = table.blocks === undefined ? 0 : table.blocks.remainingMs(charge.key, nowMs)
    if (blockedMs === 0) return { table, slot, verdict: measured.verdict, next: measured.next }
    // Nothing is spent: the verdict as things stand, with the longer of the two waits.
    const { verdict, next } = measured.verdict.allowed
      ? table.algorithm.measure(charge.limit, state, nowMs, 0)
      : measured
    return { table, slot, verdict: blockedVerdict(verdict, blockedMs), next }
  }

  #measureAll(charges: readonly Charge[], nowMs: number, cost: number): Measured[] {
    const measured = charges.map(charge => this.#measure(charge, nowMs, cost))
    if (measured.every(({ verdict }) => verdict.allowed)) return measured
    // Nothing is spent, so a limit that would have allowed it is told as it stands.
    return measured.map((one, i) => (one.verdict.allowed ? this.#measure(charges[i], nowMs, 0) : one))
  }

  #commit(charge: Charge, { table, slot, verdict, next }: Measured, spent: boolean): Verdict {
    if (spent) this.#write(charge, table, slot, next!)
    else if (slot !== undefined) {
      if (next !== undefined) table.mend(slot, next)
      if (!verdict.allowed) table.keepFor(slot, charge.limit)
    }
    return verdict
  }

  #write({ key, limit }: Charge, table: MemoryTable, slot: number | undefined, next: State): void {
    if (slot === undefined) this.#sweeper.insert(table, key, next, limit)
    else table.write(slot, next, limit)
  }

  #cancel(charge: Charge, line: Line, waiter: Waiter): void {
    const nowMs = this.#now()
    line.prune(nowMs)
    const place = line.placeOf(waiter)
    if (place >= 0) line.remove(place)
    const { algorithm } = this.#table(charge.limit, charge.limiter)
    this.#replan(charge, nowMs, Math.max(0, place), state =>
      algorithm.unbook?.(charge.limit, state, nowMs, waiter.cost),
    )
  }

  /** Changes what is spent, and lets those who wait from a place on move up. */
  #replan(charge: Charge, nowMs: number, from: number, change: (state: State | undefined) => State | undefined): void {
    const { table, slot, state } = this.#find(charge)
    const line = table.lines?.get(charge.key)
    line?.prune(nowMs)
    const next = line ? line.replan(table.algorithm, charge.limit, state, nowMs, from, change) : change(state)
    if (next !== undefined) this.#write(charge, table, slot, next)
    if (line?.isEmpty) table.lines?.delete(charge.key)
  }

  #lineOf(table: MemoryTable, key: string): Line {
    table.lines ??= new Map()
    let line = table.lines.get(key)
    if (line === undefined) {
      line = new Line()
      table.lines.set(key, line)
    }
    return line
  }

  #leave(table: MemoryTable, key: string, line: Line, waiter: Waiter): void {
    const place = line.placeOf(waiter)
    if (place >= 0) line.remove(place)
    if (line.isEmpty && table.lines?.get(key) === line) table.lines.delete(key)
  }

  #table(limit: Limit, limiter = DEFAULT_LIMITER): MemoryTable {
    const last = this.#last
    if (last !== undefined && this.#lastLimit === limit && last.limiter === limiter && !last.abandoned) return last
    const table = this.#findTable(limit, limiter)
    this.#last = table
    this.#lastLimit = limit
    return table
  }

  #findTable(limit: Limit, limiter: string): MemoryTable {
    const known = this.#known.get(limit)?.filter(table => !table.abandoned) ?? []
    const found = known.find(table => table.limiter === limiter)
    if (found) return found
    const identity = JSON.stringify([limiter, limit.name, limit.algorithm, limit.windowMs])
    let table = this.#tables.get(identity)
    if (table === undefined) {
      table = new MemoryTable(limiter, limit.algorithm)
      this.#tables.set(identity, table)
    }
    this.#known.set(limit, [...known, table])
    return table
  }
}
