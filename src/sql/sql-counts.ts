import type { BlockRule, Denials, Strikes } from '../limiter/block-rule.js'
import type { Clock } from '../limiter/core/clock.js'
import type { StoreSource } from '../limiter/core/decision.js'
import type { Limit } from '../limiter/core/limit.js'
import { OutageWarnings } from '../limiter/core/warnings.js'
import {
  type BoundPolicy,
  type Change,
  type Connecting,
  type CountedLimit,
  type Counts,
  chargesFor,
  type Keys,
  keyAt,
  type Reply,
  type Verb,
} from '../limiter/port.js'
import { type Charge, type ClockSteps, DEFAULT_DEADLINE_MS } from '../limiter/store.js'
import {
  blockIn,
  type ChangeRunner,
  chargeIn,
  DecisionChange,
  giveBackIn,
  type PlacedLimits,
  refundIn,
  resetIn,
  strikeIn,
} from './changes.js'
import type { RowDraft, RowKeys } from './key-row.js'

/** What the counts in a database are made of. */
export interface SqlParts {
  /** What its decisions say of where they come from. */
  readonly source: StoreSource
  /** The client as given. */
  readonly client: object
  readonly table: string
  readonly prefix: string
  /** Undefined: the database's clock. */
  readonly clock: Clock | undefined
  readonly keys: RowKeys
  readonly runner: ChangeRunner
  readonly steps: ClockSteps
  /** How long decisions may wait until the database has answered for the first time, ms. */
  readonly connectDeadlineMs: number
  /** What the warnings of an outage call the server. */
  readonly server: string
}

/** The counts of a store over SQL. */
export class SqlCounts implements Counts {
  readonly source: StoreSource
  readonly countsCalendars = true
  readonly clock: Clock | undefined
  readonly connecting: Connecting
  readonly place: readonly unknown[]

  constructor(readonly parts: SqlParts) {
    const { client, table, prefix, clock, runner, connectDeadlineMs } = parts
    this.source = parts.source
    this.clock = clock
    this.place = [client, table, prefix]
    let firstAskedAt: number | undefined
    this.connecting = {
      connectsUntil() {
        if (!runner.isFirst) return 0
        firstAskedAt ??= performance.now()
        return firstAskedAt + connectDeadlineMs
      },
    }
  }

  bind(counted: readonly CountedLimit[]): BoundPolicy {
    return new SqlPolicy(this, counted)
  }

  decide(verb: Verb, placed: PlacedLimits, cost: number, reply: Reply): void {
    const endsAt = reply.endsAt ?? performance.now() + DEFAULT_DEADLINE_MS
    this.parts.runner.run(new DecisionChange(verb === 'consume', placed, cost, endsAt, reply))
  }

  async change({ verb, units, receipts = [] }: Change, charges: readonly Charge[], endsAt?: number): Promise<void> {
    if (units === 0 && verb !== 'reset' && verb !== 'block') return
    const { steps } = this.parts
    const changeOne = (draft: RowDraft, charge: Charge, i: number, nowMs: number) => {
      if (verb === 'refund') refundIn(draft, charge, nowMs, units)
      else if (verb === 'giveBack') giveBackIn(draft, { ...charge, ...receipts[i] }, nowMs, units, steps)
      else if (verb === 'charge') chargeIn(draft, charge, nowMs, units)
      else if (verb === 'block') blockIn(draft, charge, nowMs, units)
      else resetIn(draft, charge, nowMs)
    }
    await this.#change(charges, endsAt, (drafts, nowMs) => {
      charges.forEach((charge, i) => void changeOne(drafts[i], charge, i, nowMs))
    })
  }

  strike(charge: Charge, denials: Denials, rule: BlockRule, endsAt?: number): Promise<Strikes> {
    return this.#change([charge], endsAt, ([draft], nowMs) => strikeIn(draft, charge, nowMs, denials, rule))
  }

  warnings(meanwhile: string): OutageWarnings {
    const { client, server } = this.parts
    return new OutageWarnings(client, () => server, meanwhile)
  }

  /** The rows of these keys. */
  placesOf(counted: readonly CountedLimit[], keys: Keys): Pick<PlacedLimits, 'keys' | 'rows'> {
    const [{ limiter }] = counted
    const { keys: rowKeys } = this.parts
    const key = keyAt(keys, 0)
    if (counted.every((one, i) => one.limiter === limiter && keyAt(keys, i) === key)) {
      return { keys: [rowKeys.of(key, limiter)] }
    }
    const all = counted.map((one, i) => rowKeys.of(keyAt(keys, i), one.limiter))
    const different = [...new Set(all)]
    return { keys: different, rows: all.map(key => different.indexOf(key)) }
  }

  /**
   * Changes the rows of these charges in one step. `apply` gets the row of each charge, the same object where it is the
   * same row; it is called again if another process has changed a row meanwhile. Nothing is written if it changes
   * nothing. Rejects with `StoreError`; then nobody knows whether it was written.
   */
  #change<T>(
    charges: readonly Charge[],
    endsAt = performance.now() + DEFAULT_DEADLINE_MS,
    apply: (drafts: readonly RowDraft[], nowMs: number) => T,
  ): Promise<T> {
    const { keys, rows } = this.placesOf(
      charges,
      charges.map(({ key }) => key),
    )
    return new Promise((resolve, reject) => {
      let value: T
      this.parts.runner.run({
        keys,
        endsAt,
        apply: (drafts, nowMs) => {
          value = apply(rows === undefined ? charges.map(() => drafts[0]) : rows.map(row => drafts[row]), nowMs)
        },
        done: () => resolve(value),
        reject,
      })
    })
  }
}

/** A policy over a database: its rows follow from the keys. */
class SqlPolicy implements BoundPolicy {
  readonly limits: readonly Limit[]

  constructor(
    readonly counts: SqlCounts,
    readonly counted: readonly CountedLimit[],
  ) {
    this.limits = counted.map(({ limit }) => limit)
  }

  decide(verb: Verb, keys: Keys, cost: number, reply: Reply): void {
    const { counts, counted } = this
    counts.decide(verb, { counted, ...counts.placesOf(counted, keys) }, cost, reply)
  }

  change(change: Change, keys: Keys, endsAt?: number): Promise<void> {
    return this.counts.change(change, chargesFor(this.counted, keys), endsAt)
  }
}
