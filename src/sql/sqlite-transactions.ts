import { afterIo, type Clock, systemClock } from '../limiter/core/clock.js'
import { StoreError } from '../limiter/core/errors.js'
import { getOrMake } from '../limiter/core/maps.js'
import type { ClockSteps } from '../limiter/store.js'
import { type Change, type ChangeRunner, takeChanges } from './changes.js'
import { KEPT_LONGER_MS, type KeyRow, NO_VERSION, RowDraft, Versions } from './key-row.js'
import { KnownRows } from './known-rows.js'
import type { SqlStoreSettings } from './sql-store.js'
import { isBusy, type SqliteDatabase, sqliteError } from './sqlite-database.js'
import { SqliteTable } from './sqlite-table.js'

interface TransactionOptions extends SqlStoreSettings {
  readonly database: SqliteDatabase
  /** For messages. */
  readonly server: string
  readonly busyMs: number
  /** The file of a database that the store opened itself, and may set up; undefined: it was given. */
  readonly file: { readonly path: string; readonly open: () => SqliteDatabase } | undefined
  readonly steps: ClockSteps
  /** Rows were written, so many of them for the first time. */
  readonly wrote: (added: number) => void
}

interface CarriedOut {
  /** The moment of the changes. */
  readonly nowMs: number
  /** Those that could not be applied. */
  readonly failed: ReadonlyMap<Change, unknown>
  readonly written: ReadonlyArray<readonly [key: string, row: KeyRow]>
  /** So many rows were written for the first time. */
  readonly added: number
}

/** A row as the table has it. */
interface TableRow {
  readonly version: string
  readonly state: string
}

/** After a busy call it tries again after this time, ms. */
const AGAIN_MS = 1

/**
 * Carries out changes over SQLite: all that one turn of the event loop asked for in one transaction, which locks the
 * file first.
 */
export class Transactions implements ChangeRunner {
  readonly isFirst = false
  readonly #options: TransactionOptions
  readonly #table: SqliteTable
  readonly #clock: Clock
  readonly #known: KnownRows
  readonly #versions = new Versions()
  #waiting: Change[] = []
  #isScheduled = false
  #isClosed = false

  constructor(options: TransactionOptions) {
    this.#options = options
    this.#table = new SqliteTable(options)
    this.#clock = options.clock ?? systemClock
    this.#known = new KnownRows(options.remember)
  }

  run(change: Change): void {
    this.#waiting.push(change)
    if (this.#isScheduled) return
    this.#isScheduled = true
    afterIo(this.#start)
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#table.close()
  }

  /**
   * Removes expired rows among the next `most` after a key, and gives the last key that it looked at; undefined at the
   * end.
   */
  sweep(after: string, to: string, most: number): string | undefined {
    this.#check()
    return this.#table.use(({ page, remove }) =>
      this.#table.transact(() => {
        const { last, rows } = page.get(after, to, most) as { last: string | null; rows: number }
        if (last !== null) remove.run(after, last, Math.floor(this.#clock.now()) - KEPT_LONGER_MS)
        return last === null || rows < most ? undefined : last
      }),
    )
  }

  readonly #start = () => {
    this.#isScheduled = false
    const now = performance.now()
    const late = this.#waiting.filter(({ endsAt }) => endsAt < now)
    if (late.length > 0) this.#waiting = this.#waiting.filter(({ endsAt }) => endsAt >= now)
    const changes = takeChanges(this.#waiting, this.#options.maxBatch)
    if (this.#waiting.length > 0) this.#again(0)
    if (changes.length > 0) this.#carryOut(changes)
    for (const change of late)
      change.reject(new StoreError(`${this.#options.server} was locked by others for too long`))
  }

  #again(afterMs: number): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    if (afterMs === 0) afterIo(this.#start)
    else setTimeout(this.#start, afterMs)
  }

  #carryOut(changes: readonly Change[]): void {
    let carriedOut: CarriedOut
    try {
      this.#check()
      carriedOut = this.#table.use(statements => this.#table.transact(() => this.#apply(statements, changes)))
    } catch (error) {
      if (isBusy(error)) {
        this.#waiting = [...changes, ...this.#waiting]
        this.#again(AGAIN_MS)
        return
      }
      // Perhaps somebody removed the table: it is made again.
      this.#table.forget()
      for (const change of changes) change.reject(sqliteError(error, this.#options.server))
      return
    }
    const { nowMs, failed, written, added } = carriedOut
    for (const [key, row] of written) this.#known.wrote(key, row)
    if (written.length > 0) this.#options.wrote(added)
    for (const change of changes) {
      if (failed.has(change)) change.reject(failed.get(change))
      else change.done(nowMs)
    }
  }

  #check(): void {
    if (this.#isClosed) throw new StoreError('SqliteStore: it was closed')
  }

  #apply({ read, write }: SqliteTable['statements'], changes: readonly Change[]): CarriedOut {
    // Read while the file is locked: later than every earlier write.
    const nowMs = Math.floor(this.#clock.now())
    this.#options.steps.note(nowMs)
    const stored = new Map<string, TableRow>()
    for (const { keys } of changes) {
      for (const key of keys) getOrMake(stored, key, () => (read.get(key) as TableRow | undefined | null) ?? NO_ROW)
    }
    const rows = new Map<string, KeyRow>()
    const rowOf = (key: string) =>
      getOrMake(rows, key, () => {
        const { version, state } = stored.get(key)!
        return this.#known.read(key, version, state)
      })
    const failed = new Map<Change, unknown>()
    const version = this.#versions.next()
    const written: Array<readonly [key: string, row: KeyRow]> = []
    let added = 0
    for (const draft of decide(changes, rowOf, nowMs, failed)) {
      if (!draft.isDirty) continue
      const { row, text, until } = draft.written(version, nowMs)
      write.run(draft.key, version, until, text)
      written.push([draft.key, row])
      if (draft.base.version === NO_VERSION) added++
    }
    return { nowMs, failed, written, added }
  }
}

const NO_ROW: TableRow = { version: NO_VERSION, state: '' }

/** Applies the changes to drafts of their rows, and gives these. Adds those that fail to `failed`. */
function decide(
  changes: readonly Change[],
  rowOf: (key: string) => KeyRow,
  nowMs: number,
  failed: Map<Change, unknown>,
): Iterable<RowDraft> {
  for (;;) {
    const drafts = new Map<string, RowDraft>()
    const draftOf = (key: string) => getOrMake(drafts, key, () => new RowDraft(key, rowOf(key)))
    const failing = changes.find(change => {
      if (failed.has(change)) return false
      try {
        change.apply(change.keys.map(draftOf), nowMs)
        return false
      } catch (error) {
        failed.set(change, error)
        return true
      }
    })
    // What it has changed in the drafts is not written: the others are decided again.
    if (failing === undefined) return drafts.values()
  }
}
