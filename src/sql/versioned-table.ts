/** A row as the database has it. */
export interface StoredRow {
  readonly version: string
  readonly state: string
}

/** A row to write. */
export interface RowWrite {
  readonly key: string
  /** The version that the row must still have. A row that is missing has `NO_VERSION`. */
  readonly prev: string
  readonly expiresAt: number
  readonly state: string
  /** Rows of one group are written together or not at all. */
  readonly group: number
}

/** Rows to write under one new version, if the database's clock then shows a moment between these two, ms. */
export interface WriteBatch {
  readonly rows: readonly RowWrite[]
  readonly version: string
  readonly from: number
  readonly until: number
  /** For so long it waits for a row that somebody else holds, whole ms, at least 1. */
  readonly waitMs: number
}

export interface WriteAnswer {
  /** The database's clock, ms; undefined if it was not told. */
  readonly clock: number | undefined
  /** The keys of rows that were not written, with the row as it was when nobody could change it, if that is known. */
  readonly lost: ReadonlyMap<string, StoredRow | undefined>
}

/** The table of a database whose answers take time. */
export interface VersionedTable {
  /** Undefined: so many statements wait for the database that no other may. */
  take(): VersionedRows | undefined
  /** Called when `take` may give rows again. */
  onFree: () => void
}

/**
 * What the store needs of such a table: one statement at a time. Every method rejects with `StoreError`, at the latest
 * after `timeoutMs`; the answer then no longer counts.
 */
export interface VersionedRows {
  /** The rows that are there. */
  read(
    keys: readonly string[],
    timeoutMs: number,
  ): Promise<{ readonly clock: number; readonly rows: ReadonlyMap<string, StoredRow> }>
  /**
   * Writes each row for itself: its group is of no account. Undefined: somebody else held a row for longer than
   * `waitMs`, and none was written.
   */
  write(batch: WriteBatch, timeoutMs: number): Promise<WriteAnswer | undefined>
  /**
   * Writes rows that exist, holding all of them while it compares: slower, but a row that is lost comes back as it is.
   */
  writeGroups(batch: WriteBatch, timeoutMs: number): Promise<WriteAnswer | undefined>
  /** Adds the rows that are missing, with `NO_VERSION`. False: somebody else held one for longer than `waitMs`. */
  add(keys: readonly string[], expiresAt: number, waitMs: number, timeoutMs: number): Promise<boolean>
  /** The keys of the rows that somebody else holds now. */
  held(keys: readonly string[], timeoutMs: number): Promise<ReadonlySet<string>>
  /** Nothing more will be asked. */
  leave(): void
}
