import { getOrMake } from '../limiter/core/maps.js'
import type { Change } from './changes.js'
import { type KeyRow, RowDraft } from './key-row.js'
import type { KnownRows } from './known-rows.js'
import type { VersionedRows } from './versioned-table.js'

/** Changes of the same rows, which are written together or not at all. */
export interface Group {
  readonly drafts: Draft[]
  readonly changes: Change[]
}

export class Draft extends RowDraft {
  group: Group | undefined
}

/** Puts a row into a group, with all that is joined to it already: the group it was in is empty then. */
export function join(group: Group, draft: Draft): void {
  const other = draft.group
  if (other === group) return
  draft.group = group
  group.drafts.push(draft)
  if (other === undefined) return
  for (const change of other.changes.splice(0)) group.changes.push(change)
  for (const one of other.drafts.splice(0)) join(group, one)
}

/** The changes that are carried out together, and their rows as they know them. */
export class Flight {
  readonly open: Set<Change>
  readonly #known = new Map<string, KeyRow>()
  /** Rows that were read since the flight began. */
  readonly #fresh = new Set<string>()
  /** Whether it has met a row that somebody else holds. */
  hasMetHeld = false

  /** `landed` is called when no change is open, before the last ones are done. */
  constructor(
    changes: readonly Change[],
    readonly rows: VersionedRows,
    /** Whether all its rows are those of one change, which somebody else holds. */
    readonly isPatient: boolean,
    readonly landed: (flight: Flight) => void,
  ) {
    this.open = new Set(changes)
  }

  get keys(): Set<string> {
    const keys = new Set<string>()
    for (const change of this.open) for (const key of change.keys) keys.add(key)
    return keys
  }

  /** A row as the flight knows it. What the process forgets meanwhile, it keeps. */
  rowOf(key: string, remembered: KnownRows): KeyRow {
    return getOrMake(this.#known, key, () => remembered.get(key))
  }

  isFresh(key: string): boolean {
    return this.#fresh.has(key)
  }

  wasRead(key: string, row: KeyRow): void {
    this.#fresh.add(key)
    this.#known.set(key, row)
  }

  done(changes: readonly Change[], nowMs: number): void {
    this.leave(changes)
    for (const change of changes) change.done(nowMs)
  }

  reject(changes: readonly Change[], error: unknown): void {
    this.leave(changes)
    for (const change of changes) change.reject(error)
  }

  leave(changes: readonly Change[]): void {
    const wasOpen = this.open.size > 0
    for (const change of changes) this.open.delete(change)
    if (wasOpen && this.open.size === 0) this.landed(this)
  }
}

/** A row is waited for at most this long while others wait behind it, ms: then they have their turn. */
const TURN_MS = 100
/** And for so long while the statement holds other rows. */
const JOINT_TURN_MS = 10

/** How long the first of these changes can wait, ms. */
export function shortestOf(groups: readonly Group[]): number {
  let endsAt = Number.POSITIVE_INFINITY
  for (const { changes } of groups) for (const change of changes) endsAt = Math.min(endsAt, change.endsAt)
  return endsAt - performance.now()
}

/**
 * For how long a statement waits for a row that somebody else holds: no longer than the shortest deadline in it, and at
 * first half as long, so that time is left to decide the others.
 */
export function waitOf({ isPatient }: Flight, shortestMs: number, rows: number): number {
  const mostMs = isPatient
    ? Math.min(shortestMs, rows > 1 ? JOINT_TURN_MS : TURN_MS)
    : Math.min(shortestMs / 2, TURN_MS)
  return Math.max(1, Math.floor(mostMs))
}
