import type { BlockRule, Denials, Strikes } from '../limiter/block-rule.js'
import type { Clock } from '../limiter/core/clock.js'
import type { StoreSource, Verdict } from '../limiter/core/decision.js'
import { PolicyError, shown } from '../limiter/core/errors.js'
import type { Limit } from '../limiter/core/limit.js'
import {
  checkClock,
  checkInteger,
  checkOptions,
  checkText,
  type ForeignNames,
  type OptionNames,
} from '../limiter/core/options.js'
import { OutageWarnings } from '../limiter/core/warnings.js'
import { OFFERS, type StoreOffers } from '../limiter/offers.js'
import {
  type Asker,
  type BoundPolicy,
  type Charge,
  type ChargeReceipt,
  type ClockSteps,
  DEFAULT_DEADLINE_MS,
  type Store,
} from '../limiter/store.js'
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

/** Options of the stores over SQL. */
export interface SqlStoreOptions {
  /**
   * Default 'spillway'. The table; in PostgreSQL it may be qualified, 'limits.spillway'. Letters, digits, _ and one
   * dot, else `PolicyError`.
   */
  table?: string
  /** Default 'spillway': separates services that share the table. */
  prefix?: string
  /** Default 400: the most rows of one statement; integer ≥ 1. */
  maxBatch?: number
  /**
   * Default 10 000: of so many keys the process remembers the state that it wrote last; integer ≥ 1. Of long states
   * fewer, so that memory is bounded.
   */
  remember?: number
  /** Default: the database's clock. Pass a clock only in tests and simulations. */
  clock?: Clock
}

/** The options, checked and with their defaults. */
export interface SqlStoreSettings {
  readonly table: string
  readonly prefix: string
  readonly maxBatch: number
  readonly remember: number
  readonly clock: Clock | undefined
}

export const SQL_OPTIONS: OptionNames<SqlStoreOptions> = {
  table: true,
  prefix: true,
  maxBatch: true,
  remember: true,
  clock: true,
}

/** Options of other stores. */
const FOREIGN: ForeignNames = [
  ['table', 'a hot key belongs in Redis, which leases its units: new RedisStore(client, { leases: true })', 'leases'],
]

/** Throws `PolicyError` for options that mean nothing. `names`: all options of the store. */
export function parseSqlOptions<Options extends SqlStoreOptions>(
  owner: string,
  options: Options,
  names: OptionNames<Options>,
): SqlStoreSettings {
  checkOptions(owner, options, names, '{ prefix: "app" }', FOREIGN)
  const { table = 'spillway', prefix = 'spillway', maxBatch = 400, remember = 10_000, clock } = options
  checkText(prefix, `${owner}: prefix`, 'spillway')
  checkInteger(maxBatch, `${owner}: maxBatch`, 400, 1)
  checkInteger(remember, `${owner}: remember`, 10_000, 1)
  if (clock !== undefined) checkClock(clock, `${owner}: clock`)
  return { table: checkTable(owner, table), prefix, maxBatch, remember, clock }
}

/** A name of a table that needs no quotes. */
export function checkTable(owner: string, table: unknown): string {
  if (typeof table === 'string' && /^[a-z_]\w{0,62}(\.[a-z_]\w{0,62})?$/i.test(table)) return table
  throw new PolicyError(
    `${owner}: table ${shown(table)}: expected letters, digits, _ and at most one dot, like "spillway" or ` +
      '"limits.spillway"',
  )
}

/**
 * State in a table of a database, shared by all processes with the same table, prefix and limiter name. One row holds
 * all that is kept of a key of one limiter. The arithmetic runs in the process; the database keeps states, and its
 * clock counts.
 */
export abstract class SqlStore implements Store {
  readonly countsCalendars = true
  readonly clock?: Clock
  /** The client as given. */
  abstract readonly client: object
  /** The table as given. */
  readonly table: string
  /** What every key begins with. */
  readonly prefix: string
  /** @internal */
  abstract readonly source: StoreSource
  /** @internal How long decisions may wait until the database has answered for the first time, ms. */
  abstract readonly connectDeadlineMs: number
  #firstAskedAt: number | undefined
  readonly #keys: RowKeys
  readonly #runner: ChangeRunner
  readonly #steps: ClockSteps

  /** @internal */
  constructor({ table, prefix, clock }: SqlStoreSettings, keys: RowKeys, runner: ChangeRunner, steps: ClockSteps) {
    if (clock !== undefined) this.clock = clock
    this.table = table
    this.prefix = prefix
    this.#keys = keys
    this.#runner = runner
    this.#steps = steps
  }

  /** @internal What the warnings of an outage call the server. */
  protected abstract readonly server: string

  /** @internal */
  get [OFFERS](): StoreOffers {
    return this
  }

  /** @internal */
  sharesCountsWith(other: Store): boolean {
    if (!(other instanceof SqlStore)) return false
    return other.client === this.client && other.table === this.table && other.prefix === this.prefix
  }

  /** @internal See the option `connectDeadline`. */
  connectsUntil(): number {
    if (!this.#runner.isFirst) return 0
    this.#firstAskedAt ??= performance.now()
    return this.#firstAskedAt + this.connectDeadlineMs
  }

  /** @internal Decisions without a list of charges. */
  bind(limits: readonly Limit[], limiter: string | undefined): BoundPolicy {
    return {
      ask: (verb, key, cost, asker) => this.#decide(verb, { limits, keys: [this.#keys.of(key, limiter)] }, cost, asker),
    }
  }

  /**
   * @internal Whether `ask` gives what this method would: users replace methods, to spy on them or to make them fail.
   */
  isAskable(verb: 'consume' | 'peek'): boolean {
    return verb === 'consume' ? this.consume === consume : this.peek === peek
  }

  /** Spends `cost` from all charges or from none. Rejects with `StoreError`. */
  consume(charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> {
    return new Promise((resolve, reject) => this.ask('consume', charges, cost, { resolve, reject }))
  }

  peek(charges: readonly Charge[], cost: number): Promise<readonly Verdict[]> {
    return new Promise((resolve, reject) => this.ask('peek', charges, cost, { resolve, reject }))
  }

  /** @internal `consume` or `peek` without a promise. Check `isAskable` first. */
  ask(verb: 'consume' | 'peek', charges: readonly Charge[], cost: number, asker: Asker): void {
    if (charges.length === 0) asker.resolve([], performance.now())
    else this.#decide(verb, { limits: charges.map(({ limit }) => limit), ...this.#placesOf(charges) }, cost, asker)
  }

  async refund(charges: readonly Charge[], cost: number, endsAt?: number): Promise<void> {
    if (cost > 0)
      await this.#changeEach(charges, endsAt, (draft, charge, nowMs) => refundIn(draft, charge, nowMs, cost))
  }

  async giveBack(receipts: readonly ChargeReceipt[], units: number, endsAt?: number): Promise<void> {
    if (units === 0) return
    await this.#changeEach(receipts, endsAt, (draft, receipt, nowMs) =>
      giveBackIn(draft, receipt, nowMs, units, this.#steps),
    )
  }

  async charge(charges: readonly Charge[], cost: number, endsAt?: number): Promise<void> {
    if (cost === 0) return
    await this.#changeEach(charges, endsAt, (draft, charge, nowMs) => chargeIn(draft, charge, nowMs, cost))
  }

  async block(charges: readonly Charge[], forMs: number, endsAt?: number): Promise<void> {
    await this.#changeEach(charges, endsAt, (draft, charge, nowMs) => blockIn(draft, charge, nowMs, forMs))
  }

  /** Makes each key as if it was never used under its limit; blocks stay. Rejects with `StoreError`. */
  async reset(charges: readonly Charge[], endsAt?: number): Promise<void> {
    await this.#changeEach(charges, endsAt, resetIn)
  }

  /** @internal Counts denials of a key that is not blocked, and blocks it if they are too many. */
  async strike(charge: Charge, denials: Denials, rule: BlockRule, endsAt?: number): Promise<Strikes> {
    return this.#change([charge], endsAt, ([draft], nowMs) => strikeIn(draft, charge, nowMs, denials, rule))
  }

  /** @internal The warnings of an outage; `meanwhile` says what happens until it ends. */
  outageWarnings(meanwhile: string): OutageWarnings {
    return new OutageWarnings(this.client, () => this.server, meanwhile)
  }

  #decide(verb: 'consume' | 'peek', placed: PlacedLimits, cost: number, asker: Asker): void {
    const endsAt = asker.endsAt ?? performance.now() + DEFAULT_DEADLINE_MS
    this.#runner.run(new DecisionChange(verb === 'consume', placed, cost, endsAt, asker))
  }

  async #changeEach<C extends Charge>(
    charges: readonly C[],
    endsAt: number | undefined,
    change: (draft: RowDraft, charge: C, nowMs: number) => void,
  ): Promise<void> {
    if (charges.length === 0) return
    await this.#change(charges, endsAt, (drafts, nowMs) => {
      charges.forEach((charge, i) => void change(drafts[i], charge, nowMs))
    })
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
    const { keys, rows } = this.#placesOf(charges)
    return new Promise((resolve, reject) => {
      let value: T
      this.#runner.run({
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

  #placesOf(charges: readonly Charge[]): Pick<PlacedLimits, 'keys' | 'rows'> {
    const [{ key, limiter }] = charges
    if (charges.every(charge => charge.key === key && charge.limiter === limiter)) {
      return { keys: [this.#keys.of(key, limiter)] }
    }
    const all = charges.map(({ key, limiter }) => this.#keys.of(key, limiter))
    const keys = [...new Set(all)]
    return { keys, rows: all.map(key => keys.indexOf(key)) }
  }
}

const { consume, peek } = SqlStore.prototype
