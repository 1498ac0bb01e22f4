import { afterIo, type Clock, GRACE_MS, LONGEST_TIMER_MS } from '../limiter/core/clock.js'
import { StoreError } from '../limiter/core/errors.js'
import { getOrMake } from '../limiter/core/maps.js'
import type { ClockSteps } from '../limiter/store.js'
import { type Change, type ChangeRunner, takeChanges } from './changes.js'
import { type KeyRow, NO_VERSION, RowDraft, Versions } from './key-row.js'
import { KnownRows } from './known-rows.js'

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
}

export interface WriteAnswer {
  /** The database's clock, ms; undefined if it was not told. */
  readonly clock: number | undefined
  /** The keys of rows that were not written, with the row as it was when nobody could change it, if that is known. */
  readonly lost: ReadonlyMap<string, StoredRow | undefined>
}

/**
 * What the store needs of a database whose answers take time. Every method rejects with `StoreError`. No answer counts
 * after `timeoutMs`.
 */
export interface VersionedTable {
  /** The rows that are there. */
  read(
    keys: readonly string[],
    timeoutMs: number,
  ): Promise<{ readonly clock: number; readonly rows: ReadonlyMap<string, StoredRow> }>
  /** Writes each row for itself: its group is of no account. */
  write(batch: WriteBatch, timeoutMs: number): Promise<WriteAnswer>
  /**
   * Writes rows that exist, holding all of them while it compares: slower, but a row that is lost comes back as it is.
   */
  writeGroups(batch: WriteBatch, timeoutMs: number): Promise<WriteAnswer>
  /** Adds the rows that are missing, with `NO_VERSION`. */
  add(keys: readonly string[], expiresAt: number, timeoutMs: number): Promise<object>
}

/** For so long an answer says what the server's clock shows: in this time clocks drift apart by less than one ms. */
const TRUSTED_MS = 5000

/**
 * The server's clock: the local monotonic clock plus the smallest difference of the last seconds between an answer's
 * time and the moment of asking. It is never behind the server at the moment of asking; and ahead of it on arrival only
 * if this trip is the quickest of all, which the server then refuses.
 */
class ServerClockAbove {
  /** With rising differences: the first is the smallest. */
  readonly #samples: Array<{ readonly sentAt: number; readonly ahead: number }> = []
  #last = Number.NEGATIVE_INFINITY

  learn(sentAt: number, serverMs: number): void {
    const ahead = serverMs - sentAt
    while (this.#samples.length > 0 && this.#samples[this.#samples.length - 1].ahead >= ahead) this.#samples.pop()
    this.#samples.push({ sentAt, ahead })
    // The latest answer's, not the greatest: after the clock was set back, everything would stop until it is there
    // again.
    this.#last = Math.floor(serverMs)
  }

  /** Whole ms; undefined if there is no answer of the last seconds. */
  now(): number | undefined {
    const now = performance.now()
    while (this.#samples.length > 0 && now - this.#samples[0].sentAt > TRUSTED_MS) this.#samples.shift()
    if (this.#samples.length === 0) return undefined
    return Math.max(Math.floor(now + this.#samples[0].ahead), this.#last)
  }

  /** The server's clock was set, or it is another server. */
  forget(): void {
    this.#samples.length = 0
  }
}

/** Changes of the same rows, which are written together or not at all. */
interface Group {
  readonly drafts: Draft[]
  readonly changes: Change[]
}

class Draft extends RowDraft {
  group: Group | undefined
}

/** The changes that are carried out together. */
class Flight {
  readonly open: Set<Change>
  /** Rows that were read since the flight began. */
  #fresh: Set<string> | undefined

  /** `landed` is called when no change is open, before the last ones are done. */
  constructor(
    changes: readonly Change[],
    readonly landed: () => void,
  ) {
    this.open = new Set(changes)
  }

  get keys(): Set<string> {
    const keys = new Set<string>()
    for (const change of this.open) for (const key of change.keys) keys.add(key)
    return keys
  }

  isFresh(key: string): boolean {
    return this.#fresh?.has(key) === true
  }

  wasRead(key: string): void {
    this.#fresh ??= new Set()
    this.#fresh.add(key)
  }

  done(changes: readonly Change[], nowMs: number): void {
    this.#close(changes)
    for (const change of changes) change.done(nowMs)
  }

  reject(changes: readonly Change[], error: unknown): void {
    this.#close(changes)
    for (const change of changes) change.reject(error)
  }

  #close(changes: readonly Change[]): void {
    const wasOpen = this.open.size > 0
    for (const change of changes) this.open.delete(change)
    if (wasOpen && this.open.size === 0) this.landed()
  }
}

const NEVER_LATE = Number.MAX_SAFE_INTEGER

const nextTick = globalThis.process?.nextTick ?? queueMicrotask

interface FlightsOptions {
  readonly table: VersionedTable
  /** Most rows of one statement. */
  readonly maxBatch: number
  /** Of so many rows the state is remembered. */
  readonly remember: number
  /** In place of the database's clock. */
  readonly clock: Clock | undefined
  readonly steps: ClockSteps
  /** Rows were written, so many of them for the first time. */
  readonly wrote: (added: number) => void
}

/**
 * Carries out changes over a database that only compares versions. The changes of one turn of the event loop make one
 * flight: it decides them from the rows as this process remembers them, at the moment that the server's clock is
 * estimated to show, and writes all rows with one statement. Rows that another process has written since are not
 * written: their changes are decided again. A change that writes nothing is done only when its rows were read. One
 * flight at a time: the next one may have the same keys.
 */
export class Flights implements ChangeRunner {
  readonly #options: FlightsOptions
  readonly #known: KnownRows
  readonly #clock = new ServerClockAbove()
  readonly #waiting: Change[] = []
  #isFlying = false
  #isScheduled = false
  readonly #versions = new Versions()
  isFirst = true

  constructor(options: FlightsOptions) {
    this.#options = options
    this.#known = new KnownRows(options.remember)
  }

  run(change: Change): void {
    this.#waiting.push(change)
    if (this.#isFlying || this.#isScheduled) return
    this.#isScheduled = true
    nextTick(this.#start)
  }

  readonly #start = () => {
    this.#isScheduled = false
    const flight = new Flight(takeChanges(this.#waiting, this.#options.maxBatch), () => this.#landed())
    this.#isFlying = true
    this.#carryOut(flight).catch(error => {
      // Nobody knows what was written, and the next answer may come from another server.
      for (const key of flight.keys) this.#known.forget(key)
      this.#clock.forget()
      this.isFirst = false
      flight.reject([...flight.open], error)
    })
  }

  #landed(): void {
    this.#isFlying = false
    if (this.#waiting.length === 0) return
    this.#isScheduled = true
    // By then, callers that ask again directly after their answer have done so.
    afterIo(this.#start)
  }

  async #carryOut(flight: Flight): Promise<void> {
    const unread = new Set<string>()
    for (const { keys } of flight.open) {
      for (const key of keys) if (this.#known.isDoubtful(key)) unread.add(key)
    }
    let nowMs = unread.size > 0 ? await this.#read(flight, unread) : this.#now()
    for (let tries = 0; flight.open.size > 0; tries++) {
      nowMs ??= this.#now() ?? (await this.#read(flight, flight.keys))
      unread.clear()
      const single: Group[] = []
      const joint: Group[] = []
      for (const group of this.#decide(flight, nowMs)) {
        const { drafts, changes } = group
        let isDirty = false
        let isStale = false
        for (const draft of drafts) {
          if (draft.isDirty) isDirty = true
          else if (!flight.isFresh(draft.key)) {
            isStale = true
            unread.add(draft.key)
          }
        }
        if (isStale) continue
        if (!isDirty) flight.done(changes, nowMs)
        else if (drafts.length === 1 && (tries === 0 || drafts[0].base.version === NO_VERSION)) single.push(group)
        else joint.push(group)
      }
      const at = nowMs
      nowMs = undefined
      if (single.length > 0) nowMs = await this.#write(flight, single, at, unread, 'write')
      if (joint.length > 0) {
        await this.#add(flight, joint, at)
        nowMs = await this.#write(flight, joint, at, unread, 'writeGroups')
      }
      if (unread.size > 0) nowMs = await this.#read(flight, unread)
    }
  }

  /**
   * Decides the open changes in their order: the groups of those that share rows. Changes that are too late are
   * rejected.
   */
  #decide(flight: Flight, nowMs: number): Group[] {
    const drafts = new Map<string, Draft>()
    const draftOf = (key: string) => getOrMake(drafts, key, () => new Draft(key, this.#known.get(key)))
    const groups: Group[] = []
    const moment = performance.now()
    for (const change of flight.open) {
      if (change.endsAt < moment) {
        flight.reject([change], new StoreError('the database was asked too late to decide in time'))
        continue
      }
      const own = change.keys.map(draftOf)
      try {
        change.apply(own, nowMs)
      } catch (error) {
        flight.reject([change], error)
        continue
      }
      let [{ group }] = own
      if (group === undefined) {
        group = { drafts: [], changes: [] }
        groups.push(group)
      }
      for (const draft of own) join(group, draft)
      group.changes.push(change)
    }
    return groups
  }

  /**
   * Writes the dirty rows of the groups. Returns the database's clock, if it was told; `unread`: rows that have to be
   * read.
   */
  async #write(
    flight: Flight,
    groups: readonly Group[],
    nowMs: number,
    unread: Set<string>,
    how: 'write' | 'writeGroups',
  ): Promise<number | undefined> {
    const version = this.#versions.next()
    const rows: RowWrite[] = []
    const written: KeyRow[] = []
    let endsAt = Number.POSITIVE_INFINITY
    groups.forEach(({ drafts, changes }, group) => {
      for (const change of changes) endsAt = Math.min(endsAt, change.endsAt)
      for (const draft of drafts) {
        if (!draft.isDirty) continue
        const { row, text, until } = draft.written(version, nowMs)
        rows.push({ key: draft.key, prev: draft.base.version, expiresAt: until, state: text, group })
        written.push(row)
      }
    })
    const isGiven = this.#options.clock !== undefined
    const from = isGiven ? 0 : nowMs
    const until = isGiven ? NEVER_LATE : Math.floor(nowMs + endsAt - performance.now() + GRACE_MS)
    const { clock, lost } = await this.#ask(flight, timeoutMs =>
      this.#options.table[how]({ rows, version, from, until }, timeoutMs),
    )
    let added = 0
    rows.forEach(({ key, prev }, i) => {
      if (!lost.has(key)) {
        this.#known.wrote(key, written[i])
        if (prev === NO_VERSION) added++
        return
      }
      const newest = lost.get(key)
      this.#known.lost(key)
      if (newest === undefined) unread.add(key)
      else this.#readRow(flight, key, newest)
    })
    this.#options.wrote(added)
    for (const { drafts, changes } of groups) {
      if (lost.size === 0 || !drafts.some(({ key }) => lost.has(key))) flight.done(changes, nowMs)
    }
    return clock === undefined ? undefined : this.#moment(clock)
  }

  /** Adds the rows of groups that are missing, so that all can be held. */
  async #add(flight: Flight, groups: readonly Group[], nowMs: number): Promise<void> {
    const missing: string[] = []
    for (const { drafts } of groups) {
      for (const { key, base } of drafts) if (base.version === NO_VERSION) missing.push(key)
    }
    if (missing.length === 0) return
    await this.#ask(flight, timeoutMs => this.#options.table.add(missing, nowMs, timeoutMs))
  }

  async #read(flight: Flight, keys: ReadonlySet<string>): Promise<number> {
    const { clock, rows } = await this.#ask(flight, timeoutMs => this.#options.table.read([...keys], timeoutMs))
    for (const key of keys) this.#readRow(flight, key, rows.get(key) ?? NO_ROW)
    return this.#moment(clock)
  }

  #readRow(flight: Flight, key: string, { version, state }: StoredRow): void {
    flight.wasRead(key)
    try {
      this.#known.read(key, version, state)
    } catch (error) {
      flight.reject(
        [...flight.open].filter(({ keys }) => keys.includes(key)),
        error,
      )
    }
  }

  /**
   * Rejects if there is no answer in time: a client may wait for longer for a connection, or for a server that hangs.
   */
  #ask<T extends { readonly clock?: number | undefined }>(
    flight: Flight,
    ask: (timeoutMs: number) => Promise<T>,
  ): Promise<T> {
    const sentAt = performance.now()
    let endsAt = sentAt
    for (const change of flight.open) endsAt = Math.max(endsAt, change.endsAt)
    const timeoutMs = endsAt - sentAt + GRACE_MS
    return new Promise((resolve, reject) => {
      let isLate = false
      const late = () => {
        isLate = true
        reject(new StoreError('the database did not answer in time'))
      }
      const timer = setTimeout(late, Math.min(timeoutMs, LONGEST_TIMER_MS))
      const answered = (answer: T) => {
        // Later answers have told of later moments.
        if (isLate) return
        clearTimeout(timer)
        this.isFirst = false
        if (answer.clock !== undefined && this.#options.clock === undefined) {
          this.#clock.learn(sentAt, answer.clock)
          this.#options.steps.note(Math.floor(answer.clock), sentAt, performance.now())
        }
        resolve(answer)
      }
      ask(timeoutMs).then(answered, error => {
        clearTimeout(timer)
        reject(error)
      })
    })
  }

  /** The moment of an answer. */
  #moment(serverMs: number): number {
    return this.#options.clock === undefined ? Math.floor(serverMs) : this.#now()!
  }

  #now(): number | undefined {
    const { clock, steps } = this.#options
    if (clock === undefined) return this.#clock.now()
    const nowMs = Math.floor(clock.now())
    steps.note(nowMs)
    return nowMs
  }
}

/** Puts a row into a group, with all that is joined to it already: the group it was in is empty then. */
function join(group: Group, draft: Draft): void {
  const other = draft.group
  if (other === group) return
  draft.group = group
  group.drafts.push(draft)
  if (other === undefined) return
  group.changes.push(...other.changes.splice(0))
  for (const one of other.drafts.splice(0)) join(group, one)
}

const NO_ROW: StoredRow = { version: NO_VERSION, state: '' }
