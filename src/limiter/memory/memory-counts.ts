import { fitsAfterMs } from '../ahead.js'
import { copyOf, type Measured as Measurement, measure, measureTogether, type State } from '../algorithms/registry.js'
import type { BlockRule, Denials, Strikes } from '../block-rule.js'
import { changesOf, refund, spend } from '../changes/changes.js'
import { resetNote } from '../changes/refund-note.js'
import type { Clock } from '../core/clock.js'
import type { Verdict } from '../core/decision.js'
import type { Limit } from '../core/limit.js'
import { getOrMake } from '../core/maps.js'
import { countName } from '../count-name.js'
import {
  type BoundPolicy,
  type Change,
  type CountedLimit,
  type Counts,
  chargesFor,
  type DecidesNow,
  type Keys,
  type Origin,
  type Reply,
  type Verb,
} from '../port.js'
import { type Charge, type ChargeReceipt, ClockSteps, DEFAULT_LIMITER } from '../store.js'
import { type DecisionTime, MemoryTable } from './memory-table.js'
import { Sweeper } from './sweeper.js'

/** The measured state of one charge, before anything is written. */
interface Measured extends Measurement {
  readonly table: MemoryTable
  readonly slot: number | undefined
}

/** The counts of a `MemoryStore`. Every call is synchronous. */
export class MemoryCounts implements Counts, DecisionTime {
  readonly source = 'memory'
  readonly isLocal = true
  readonly countsCalendars = true
  /** The time of the last call, by the store's clock: reading the clock takes longer than deciding. */
  decidedAt = Number.NEGATIVE_INFINITY
  /** Set by who puts a store together. */
  lines?: Counts['lines']
  readonly #sweeper: Sweeper
  readonly #steps = new ClockSteps()
  readonly #tables = new Map<string, MemoryTable>()
  readonly #known = new WeakMap<Limit, MemoryTable[]>()
  /** Units requested by waiters, by the name of the line; undefined while nobody waits. */
  #waiting: Map<string, number> | undefined

  constructor(
    readonly clock: Clock,
    maxKeys: number,
  ) {
    this.#sweeper = new Sweeper(this.#tables, maxKeys, () => Math.floor(this.clock.now()))
  }

  /** The number of stored keys and blocks, each counted once per limit. */
  get size(): number {
    return this.#sweeper.size
  }

  /** Spends `cost` from all charges or from none. */
  consume(charges: readonly Charge[], cost: number): readonly Verdict[] {
    if (charges.length === 1) {
      const { key, limit, limiter } = charges[0]
      const table = this.tableOf(limit, limiter)
      const slot = this.slotToConsume(table, key)
      return [slot === undefined ? this.consumeRarely(charges[0], cost) : table.consume(slot, limit, this, cost)]
    }
    const nowMs = this.#now()
    return this.#refuseBehind(charges, nowMs, cost) ?? this.#consumeAll(charges, nowMs, cost)
  }

  bind(counted: readonly CountedLimit[]): BoundPolicy {
    return counted.length === 1 ? new OneLimit(this, counted) : new SeveralLimits(this, counted)
  }

  change({ verb, units, lastsMs, receipts = [], answered }: Change, charges: readonly Charge[]): void {
    if (verb === 'giveBack')
      this.giveBack(
        charges.map((charge, i) => ({ ...charge, ...receipts[i] })),
        units,
      )
    else if (verb === 'reset') this.reset(charges)
    else if (verb === 'charge') {
      this.charge(charges, units, lastsMs)
      answered?.({ limits: this.peek(charges, 0), at: this.decidedAt })
    } else this[verb](charges, units)
  }

  /**
   * The most common case of `consume`: one charge, for a key that has a state. The caller spends from the slot directly
   * afterwards, at `decidedAt`. Undefined if the key is new, may be blocked or has waiters: then the caller asks
   * `consumeRarely`. `table` is or was `tableOf` the limit.
   */
  slotToConsume(table: MemoryTable, key: string): number | undefined {
    this.#now()
    return this.#waiting === undefined && table.blocks === undefined ? table.slotOf(key) : undefined
  }

  /** Directly after `slotToConsume`, for the same moment. */
  consumeRarely(charge: Charge, cost: number): Verdict {
    const nowMs = this.decidedAt
    const refusal = this.#refuseBehind([charge], nowMs, cost)
    if (refusal !== undefined) return refusal[0]
    const measured = this.#measure(charge, nowMs, cost)
    return this.#commit(charge, measured, cost > 0 && measured.verdict.allowed)
  }

  peek(charges: readonly Charge[], cost: number): readonly Verdict[] {
    const nowMs = this.#now()
    const measured = this.#behind(charges, nowMs, cost) ?? this.#measureAll(charges, nowMs, cost)
    return measured.map(({ verdict }) => verdict)
  }

  refund(charges: readonly Charge[], cost: number): void {
    if (cost === 0) return
    const nowMs = this.#now()
    for (const charge of charges) {
      const { key, limit } = charge
      const table = this.tableOf(limit, charge.limiter)
      const { notes } = table
      const note = notes.of(key, nowMs)
      const { slot, state } = this.#find(charge)
      const next = refund(limit, state, nowMs, cost, note)
      if (next !== undefined) this.#write(charge, table, slot, next)
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
      // In place, because a log may be long.
      changesOf(limit).giveBack(limit, state, nowMs, units, receipt, note)
      table.correct(slot, state)
      notes.keep(key, note, limit, nowMs)
    }
  }

  charge(charges: readonly Charge[], cost: number, lastsMs?: number): void {
    if (cost === 0) return
    const nowMs = this.#now()
    for (const charge of charges) this.#spend(charge, nowMs, cost, lastsMs)
  }

  block(charges: readonly Charge[], forMs: number): void {
    const nowMs = this.#now()
    for (const { key, limit, limiter } of charges) {
      const table = this.tableOf(limit, limiter)
      if (forMs > 0) this.#sweeper.block(table, key, nowMs + forMs)
      else this.#sweeper.unblock(table, key)
    }
  }

  /** Counts denials of a key that is not blocked, and blocks it if they are too many. */
  strike({ key, limit, limiter = DEFAULT_LIMITER }: Charge, reported: Denials, rule: BlockRule): Strikes {
    const nowMs = this.#now()
    const table = this.tableOf(limit, limiter)
    const blockedMs = table.blocks?.remainingMs(key, nowMs) ?? 0
    if (blockedMs > 0) return { blockedMs, isNew: false, left: 0, resetAfterMs: 0 }
    const own = { key: JSON.stringify([countName({ limit, limiter }), key]), limiter: `strikes of ${limiter}` }
    const [denials, blocks] = [rule.denials, rule.blocks].map(counts => ({ ...own, limit: counts }))
    const found = { denials: this.#find(denials).state, blocks: this.#find(blocks).state }
    const { strikes, next } = rule.strike(reported, found, nowMs)
    this.#replace(denials, next.denials)
    this.#replace(blocks, next.blocks)
    if (strikes.isNew) this.#sweeper.block(this.tableOf(limit, limiter), key, nowMs + strikes.blockedMs)
    return strikes
  }

  /** Makes each key as if it was never used under its limit; blocks stay. */
  reset(charges: readonly Charge[]): void {
    const nowMs = this.#now()
    for (const charge of charges) {
      const { key, limit, limiter } = charge
      const table = this.tableOf(limit, limiter)
      const { slot, verdict } = this.#measure(charge, nowMs, 0)
      const isUsed = limit.quota > 0 ? verdict.resetAfterMs > 0 : slot !== undefined
      this.#sweeper.remove(table, key)
      if (isUsed && changesOf(limit).notesResets) table.notes.keep(key, resetNote(nowMs), limit, nowMs)
    }
  }

  /** The table of a limit's keys; valid until it is abandoned. */
  tableOf(limit: Limit, limiter = DEFAULT_LIMITER): MemoryTable {
    const known = this.#known.get(limit)
    if (known !== undefined) for (const table of known) if (table.limiter === limiter && !table.abandoned) return table
    const identity = JSON.stringify([limiter, countName({ limit, limiter })])
    const table = getOrMake(this.#tables, identity, () => {
      this.#sweeper.makingTable()
      return new MemoryTable(limiter, limit.algorithm)
    })
    this.#known.set(limit, [...(known?.filter(({ abandoned }) => !abandoned) ?? []), table])
    return table
  }

  /** The name of the line in which requests wait for these charges together. */
  lineName(charges: readonly Charge[]): string {
    const names = charges.map(({ key, limit, limiter = DEFAULT_LIMITER }) => [
      limiter,
      countName({ limit, limiter }),
      key,
    ])
    return JSON.stringify(names)
  }

  /** This many units wait in a line: `consume` decides newcomers behind them. */
  setWaiting(line: string, units: number): void {
    this.#waiting ??= new Map()
    if (units > 0) this.#waiting.set(line, units)
    else this.#waiting.delete(line)
    if (this.#waiting.size === 0) this.#waiting = undefined
  }

  /**
   * When a waiter fits behind `ahead` units, in ms: 0 now, Infinity never. Like every decision it corrects states after
   * the clock ran back.
   */
  fitsAfterMs(charges: readonly Charge[], ahead: number, cost: number): number {
    const nowMs = this.#now()
    this.#consumeAll(charges, nowMs, 0)
    const waits = charges.map(charge => {
      const blockedMs = this.tableOf(charge.limit, charge.limiter).blocks?.remainingMs(charge.key, nowMs) ?? 0
      return Math.max(blockedMs, this.#fitsAfterMs(charge, nowMs, ahead, cost, true))
    })
    return Math.max(...waits)
  }

  /** Spends for a waiter that fits. */
  take(charges: readonly Charge[], cost: number): readonly Verdict[] {
    return this.#consumeAll(charges, this.#now(), cost)
  }

  /** Forgets everything and stops sweeping. */
  close(): void {
    this.#sweeper.close()
  }

  /** The time by the store's clock, which is kept in `decidedAt`. */
  #now(): number {
    const nowMs = Math.floor(this.clock.now())
    if (nowMs !== this.decidedAt) this.#moveTo(nowMs)
    return nowMs
  }

  #moveTo(nowMs: number): void {
    if (nowMs < this.decidedAt) this.#steps.step(this.decidedAt, nowMs)
    this.decidedAt = nowMs
  }

  /** Refuses a newcomer that has to come after the waiters of the line; undefined if it fits beside them. */
  #refuseBehind(charges: readonly Charge[], nowMs: number, cost: number): readonly Verdict[] | undefined {
    return this.#behind(charges, nowMs, cost)?.map((measured, i) => this.#commit(charges[i], measured, false))
  }

  /**
   * As `#measureAll`, of a newcomer that has to come after the waiters of the line; undefined if it fits beside them.
   */
  #behind(charges: readonly Charge[], nowMs: number, cost: number): readonly Measured[] | undefined {
    const ahead = this.#waiting?.get(this.lineName(charges)) ?? 0
    if (ahead === 0 || cost === 0) return undefined
    const waits = charges.map(charge => this.#fitsAfterMs(charge, nowMs, ahead, cost, false))
    if (waits.every(ms => ms === 0)) return undefined
    return charges.map((charge, i) => {
      const measured = this.#measure(charge, nowMs, cost)
      const standing = measured.verdict.allowed ? this.#measure(charge, nowMs, 0) : measured
      const { verdict } = standing
      if (waits[i] <= verdict.retryAfterMs) return standing
      return { ...standing, verdict: { ...verdict, allowed: false, retryAfterMs: waits[i], delayMs: 0 } }
    })
  }

  #consumeAll(charges: readonly Charge[], nowMs: number, cost: number): readonly Verdict[] {
    const measured = this.#measureAll(charges, nowMs, cost)
    const spent = cost > 0 && measured.every(({ verdict }) => verdict.allowed)
    return charges.map((charge, i) => {
      // Making room for one of its keys may have evicted another: that one is stored again.
      const slot = measured[i].table.slotOf(charge.key)
      return this.#commit(charge, { ...measured[i], slot }, spent)
    })
  }

  #find({ key, limit, limiter }: Charge) {
    const table = this.tableOf(limit, limiter)
    const slot = table.slotOf(key)
    return { table, slot, state: slot === undefined ? undefined : table.read(slot) }
  }

  #fitsAfterMs(charge: Charge, nowMs: number, ahead: number, cost: number, waits: boolean): number {
    const { table, state } = this.#find(charge)
    const { algorithm } = table
    return fitsAfterMs(charge.limit, copyOf(algorithm, state), nowMs, ahead, cost, waits)
  }

  #measure(charge: Charge, nowMs: number, cost: number): Measured {
    const { table, slot, state } = this.#find(charge)
    const blockedMs = table.blocks === undefined ? 0 : table.blocks.remainingMs(charge.key, nowMs)
    const { verdict, next } = measure(charge.limit, state, nowMs, cost, blockedMs)
    return { table, slot, verdict, next }
  }

  #measureAll(charges: readonly Charge[], nowMs: number, cost: number): Measured[] {
    return measureTogether(charges.length, cost, (i, units) => this.#measure(charges[i], nowMs, units))
  }

  #commit(charge: Charge, { table, slot, verdict, next }: Measured, spent: boolean): Verdict {
    if (spent) this.#write(charge, table, slot, next!)
    else if (slot !== undefined) {
      if (next !== undefined) table.correct(slot, next)
      if (!verdict.allowed) table.keepFor(slot, charge.limit)
    }
    return verdict
  }

  /** Spends even what does not fit. `lastsMs`: see `Change`. */
  #spend(charge: Charge, nowMs: number, cost: number, lastsMs?: number): void {
    const { limit } = charge
    const { table, slot, state } = this.#find(charge)
    const begins = lastsMs !== undefined && measure(limit, state, nowMs, 0).verdict.resetAfterMs === 0
    const next = begins
      ? spend(limit, undefined, nowMs - limit.windowMs + lastsMs, cost)
      : spend(limit, state, nowMs, cost)
    if (next !== undefined) this.#write(charge, table, slot, next)
  }

  #replace(charge: Charge, next: State | undefined): void {
    const { table, slot } = this.#find(charge)
    if (next === undefined) this.#sweeper.remove(table, charge.key)
    else this.#write(charge, table, slot, next)
  }

  #write({ key, limit, limiter }: Charge, table: MemoryTable, slot: number | undefined, next: State): void {
    if (slot !== undefined) table.write(slot, next, limit)
    // Making another table of this decision may have removed this one, which was empty.
    else this.#sweeper.insert(table.abandoned ? this.tableOf(limit, limiter) : table, key, next, limit)
  }
}

const MEMORY: Origin = { source: 'memory' }

/** What one limit and several have in common. */
abstract class MemoryPolicy implements BoundPolicy, DecidesNow {
  readonly limits: readonly Limit[]
  readonly origin = MEMORY
  readonly now: DecidesNow
  readonly last: MemoryCounts

  constructor(
    readonly counts: MemoryCounts,
    readonly counted: readonly CountedLimit[],
  ) {
    this.limits = counted.map(({ limit }) => limit)
    this.now = this
    this.last = counts
  }

  /** Undefined if the clock fails: then `decide` rejects. */
  abstract decideNow(keys: Keys, cost: number): readonly Verdict[] | undefined

  decide(verb: Verb, keys: Keys, cost: number, reply: Reply): void {
    const { counts } = this
    let verdicts: readonly Verdict[]
    try {
      verdicts = counts[verb](chargesFor(this.counted, keys), cost)
    } catch (error) {
      reply.reject(error)
      return
    }
    reply.resolve(verdicts, performance.now(), counts.decidedAt, MEMORY)
  }

  change(change: Change, keys: Keys): void {
    this.counts.change(change, chargesFor(this.counted, keys))
  }
}

/** The most common policy. The code is short and has few calls, so that V8 inlines it. */
class OneLimit extends MemoryPolicy {
  readonly #limit: Limit
  #table: MemoryTable

  constructor(counts: MemoryCounts, counted: readonly CountedLimit[]) {
    super(counts, counted)
    const [{ limit, limiter }] = counted
    this.#limit = limit
    this.#table = counts.tableOf(limit, limiter)
  }

  decideNow(keys: Keys, cost: number): readonly Verdict[] | undefined {
    const { counts } = this
    const key = typeof keys === 'string' ? keys : keys[0]
    try {
      const slot = counts.slotToConsume(this.#table, key)
      const verdict =
        slot === undefined ? this.#consumeRarely(key, cost) : this.#table.consume(slot, this.#limit, counts, cost)
      return [verdict]
    } catch {
      return undefined
    }
  }

  #consumeRarely(key: string, cost: number): Verdict {
    const { counts } = this
    const [{ limit, limiter }] = this.counted
    const verdict = counts.consumeRarely({ key, limit, limiter }, cost)
    // The store abandons an empty table, and may have made another one for this key.
    this.#table = counts.tableOf(limit, limiter)
    return verdict
  }
}

class SeveralLimits extends MemoryPolicy {
  decideNow(keys: Keys, cost: number): readonly Verdict[] | undefined {
    try {
      return this.counts.consume(chargesFor(this.counted, keys), cost)
    } catch {
      return undefined
    }
  }
}
