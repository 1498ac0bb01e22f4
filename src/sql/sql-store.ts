import { type LeaseBook, Leases } from '../leases/leases.js'
import { type LeaseOptions, type LeaseSettings, parseLeases } from '../leases/terms.js'
import type { BlockRule, Denials, Strikes } from '../limiter/block-rule.js'
import type { Clock } from '../limiter/core/clock.js'
import type { Verdict } from '../limiter/core/decision.js'
import { PolicyError, shown } from '../limiter/core/errors.js'
import type { Limit } from '../limiter/core/limit.js'
import { checkClock, checkInteger, checkOptions, checkText, type OptionNames } from '../limiter/core/options.js'
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
  type ChangeOptions,
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
import { SqlSeller } from './lease-seller.js'

/** Options of the stores over SQL. */
export interface SqlStoreOptions {
  /**
   * Default 'spillway'. The table; in PostgreSQL it may be qualified, 'limits.spillway'. Letters, digits, _ and one
   * dot, else `PolicyError`.
   */
  table?: string
  /** Default 'spillway': separates services that share the table. */
  prefix?: string
  /**
   * Default false. true: a process buys units of a busy key in advance and spends them without asking the database. The
   * limit is never exceeded, with any number of processes, through crashes and pauses. The database decides keys that
   * are not busy, and limits too small to divide, as before. Not for 'leaky-bucket' (with `{ … }`: `PolicyError` when a
   * limiter with such a limit is built; with true: the database decides). A request may be denied while other processes
   * hold unspent units.
   */
  leases?: boolean | LeaseOptions
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
  /** Undefined: no leases. */
  readonly leases: LeaseSettings | undefined
  readonly maxBatch: number
  readonly remember: number
  readonly clock: Clock | undefined
}

export const SQL_OPTIONS: OptionNames<SqlStoreOptions> = {
  table: true,
  prefix: true,
  leases: true,
  maxBatch: true,
  remember: true,
  clock: true,
}

/** Throws `PolicyError` for options that mean nothing. `names`: all options of the store. */
export function parseSqlOptions<Options extends SqlStoreOptions>(
  owner: string,
  options: Options,
  names: OptionNames<Options>,
): SqlStoreSettings {
  checkOptions(owner, options, names, '{ prefix: "app" }')
  const { table = 'spillway', prefix = 'spillway', leases, maxBatch = 400, remember = 10_000, clock } = options
  checkText(prefix, `${owner}: prefix`, 'spillway')
  checkInteger(maxBatch, `${owner}: maxBatch`, 400, 1)
  checkInteger(remember, `${owner}: remember`, 10_000, 1)
  if (clock !== undefined) checkClock(clock, `${owner}: clock`)
  const leased = parseLeases(leases, owner)
  return { table: checkTable(owner, table), prefix, leases: leased, maxBatch, remember, clock }
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
  /** @internal How long a decision may take until the database has answered for the first time, ms. */
  abstract readonly connectDeadlineMs: number
  readonly #keys: RowKeys
  readonly #runner: ChangeRunner
  readonly #steps: ClockSteps
  readonly #leases: Leases | undefined

  /** @internal */
  constructor(
    { table, prefix, leases, clock }: SqlStoreSettings,
    keys: RowKeys,
    runner: ChangeRunner,
    steps: ClockSteps,
  ) {
    if (clock !== undefined) this.clock = clock
    this.table = table
    this.prefix = prefix
    this.#keys = keys
    this.#runner = runner
    this.#steps = steps
    if (leases === undefined) return
    // Looked up once, because the global is a getter.
    const { performance: processTime } = globalThis
    this.#leases = new Leases({
      settings: leases,
      sellerOf: (terms, limiter) => new SqlSeller(this, terms, limiter),
      now: clock === undefined ? () => processTime.now() : () => clock.now(),
      askStore: (verb, charges, cost, asker) => this.#askDatabase(verb, charges, cost, asker),
      // Resets in other processes are not heard: their leases end within one ttl.
      hearResets: () => {},
    })
  }

  /** @internal Changes by other processes are not heard. */
  readonly denialsLastMs = 1000
  /** @internal What the warnings of an outage call the server. */
  protected abstract readonly server: string

  /** @internal */
  get [OFFERS](): StoreOffers {
    return this
  }

  /**
   * @internal The leases of this process under a policy; undefined if each decision asks the database. Throws
   *   `PolicyError`: see the option `leases`.
   */
  leasesOf(limits: readonly Limit[], limiter: string | undefined): LeaseBook | undefined {
    return this.#leases?.bookOf(limits, limiter)
  }

  /** @internal */
  sharesCountsWith(other: Store): boolean {
    if (!(other instanceof SqlStore)) return false
    return other.client === this.client && other.table === this.table && other.prefix === this.prefix
  }

  /** @internal True until the database has answered this process for the first time. */
  get isFirst(): boolean {
    return this.#runner.isFirst
  }

  /** @internal Decisions without a list of charges. Leases look at each charge. */
  bind(limits: readonly Limit[], limiter: string | undefined): BoundPolicy | undefined {
    if (this.#leases !== undefined) return undefined
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
    else if (!this.#leases?.ask(verb, charges, cost, asker)) this.#askDatabase(verb, charges, cost, asker)
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
    if (cost === 0 || charges.length === 0) return
    const answered = this.#leases?.charge(charges, cost) ?? (() => {})
    const apply = each(charges, (draft, charge, nowMs) => chargeIn(draft, charge, nowMs, cost))
    await new Promise<void>((resolve, reject) => {
      this.run(
        charges,
        apply,
        { endsAt },
        () => {
          answered()
          resolve()
        },
        error => {
          answered()
          reject(error)
        },
      )
    })
  }

  async block(charges: readonly Charge[], forMs: number, endsAt?: number): Promise<void> {
    this.#leases?.end(charges)
    await this.#changeEach(charges, endsAt, (draft, charge, nowMs) => blockIn(draft, charge, nowMs, forMs))
  }

  /** Makes each key as if it was never used under its limit; blocks stay. Rejects with `StoreError`. */
  async reset(charges: readonly Charge[], endsAt?: number): Promise<void> {
    this.#leases?.end(charges)
    await this.#changeEach(charges, endsAt, resetIn)
  }

  /** @internal Counts denials of a key that is not blocked, and blocks it if they are too many. */
  async strike(charge: Charge, denials: Denials, rule: BlockRule, endsAt?: number): Promise<Strikes> {
    const apply = ([draft]: readonly RowDraft[], nowMs: number) => strikeIn(draft, charge, nowMs, denials, rule)
    const { value } = await this.change([charge], apply, { endsAt })
    if (value.isNew) this.#leases?.end([charge])
    return value
  }

  /**
   * Changes the rows of these charges in one step. `apply` gets the row of each charge, the same object where it is the
   * same row; it is called again if another process has changed a row meanwhile. Nothing is written if it changes
   * nothing. Rejects with `StoreError`; then nobody knows whether it was written.
   *
   * @internal All changes but decisions are made by it.
   */
  change<T>(
    charges: readonly Charge[],
    apply: (drafts: readonly RowDraft[], nowMs: number) => T,
    options: ChangeOptions = {},
  ): Promise<{ readonly value: T; readonly at: number }> {
    return new Promise((resolve, reject) => {
      this.run(charges, apply, options, (value, at) => resolve({ value, at }), reject)
    })
  }

  /**
   * @internal As `change`, without a promise: `done` or `failed` is called when the answer is read, before any promise
   *   of it is settled.
   */
  run<T>(
    charges: readonly Charge[],
    apply: (drafts: readonly RowDraft[], nowMs: number) => T,
    { endsAt = performance.now() + DEFAULT_DEADLINE_MS, reads = false }: ChangeOptions,
    done: (value: T, at: number) => void,
    failed: (error: unknown) => void,
  ): void {
    const { keys, rows } = this.#placesOf(charges)
    let value: T
    this.#runner.run({
      keys,
      endsAt,
      reads,
      apply: (drafts, nowMs) => {
        value = apply(rows === undefined ? charges.map(() => drafts[0]) : rows.map(row => drafts[row]), nowMs)
      },
      done: at => done(value, at),
      reject: failed,
    })
  }

  /** @internal The warnings of an outage; `meanwhile` says what happens until it ends. */
  outageWarnings(meanwhile: string): OutageWarnings {
    return new OutageWarnings(this.client, () => this.server, meanwhile)
  }

  /** Gives back unspent units, and stops its timers; what was passed in stays open. */
  async close(): Promise<void> {
    await this.#leases?.close()
  }

  /** Asks the database, regardless of leases. */
  #askDatabase(verb: 'consume' | 'peek', charges: readonly Charge[], cost: number, by: Asker): void {
    const asker = this.#leases?.beside(verb, charges, by) ?? by
    this.#decide(verb, { limits: charges.map(({ limit }) => limit), ...this.#placesOf(charges) }, cost, asker)
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
    await this.change(charges, each(charges, change), { endsAt })
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

/** Changes the row of each charge. */
function each<C extends Charge>(charges: readonly C[], change: (draft: RowDraft, charge: C, nowMs: number) => void) {
  return (drafts: readonly RowDraft[], nowMs: number): void => {
    charges.forEach((charge, i) => void change(drafts[i], charge, nowMs))
  }
}

const { consume, peek } = SqlStore.prototype
