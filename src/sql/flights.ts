import { afterIo, type Clock, GRACE_MS, LONGEST_TIMER_MS } from '../limiter/core/clock.js'
import { StoreError } from '../limiter/core/errors.js'
import { getOrMake } from '../limiter/core/maps.js'
import type { ClockSteps } from '../limiter/store.js'
import { type Change, type ChangeRunner, takeChanges } from './changes.js'
import { Draft, Flight, type Group, join, shortestOf, waitOf } from './flight.js'
import { type KeyRow, NO_VERSION, Versions } from './key-row.js'
import { KnownRows } from './known-rows.js'
import { ServerClock } from './server-clock.js'
import type { RowWrite, StoredRow, VersionedTable } from './versioned-table.js'

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
 * written: their changes are decided again. A change that writes nothing is done only when its rows were read.
 *
 * One flight at a time, because the next one may have the same keys. Beside it flies what needs rows that somebody else
 * holds: one change's rows at a time, so that a statement that waits for a row holds no others.
 */
export class Flights implements ChangeRunner {
  readonly #options: FlightsOptions
  readonly #known: KnownRows
  readonly #clock = new ServerClock()
  #waiting: Change[] = []
  /** Those that need a row which somebody else holds. */
  #patient: Change[] = []
  /** The keys of such rows. */
  readonly #held = new Set<string>()
  #flying: Flight | undefined
  #flyingPatiently: Flight | undefined
  #isScheduled = false
  #expiry: ReturnType<typeof setTimeout> | undefined
  readonly #versions = new Versions()
  isFirst = true

  constructor(options: FlightsOptions) {
    this.#options = options
    this.#known = new KnownRows(options.remember)
    options.table.onFree = () => this.#schedule(nextTick)
  }

  run(change: Change): void {
    if (this.#needsHeld(change)) this.#patient.push(change)
    else this.#waiting.push(change)
    this.#schedule(nextTick)
  }

  #needsHeld({ keys }: Change): boolean {
    return this.#held.size > 0 && keys.some(key => this.#held.has(key))
  }

  get #hasWork(): boolean {
    return (
      (this.#flying === undefined && this.#waiting.length > 0) ||
      (this.#flyingPatiently === undefined && this.#patient.length > 0)
    )
  }

  #schedule(soon: (act: () => void) => unknown): void {
    if (this.#isScheduled || !this.#hasWork) return
    this.#isScheduled = true
    soon(this.#start)
  }

  readonly #start = () => {
    this.#isScheduled = false
    if (this.#flying === undefined && this.#waiting.length > 0) this.#fly(false)
    if (this.#flyingPatiently === undefined && this.#patient.length > 0) {
      this.#patient = stillInTime(this.#patient, HELD)
      if (this.#patient.length > 0) this.#fly(true)
    }
  }

  #fly(isPatient: boolean): void {
    const rows = this.#options.table.take()
    if (rows === undefined) {
      this.#expireWaiting()
      return
    }
    const changes = isPatient ? this.#takePatient() : takeChanges(this.#waiting, this.#options.maxBatch)
    const flight = new Flight(changes, rows, isPatient, this.#landed)
    if (isPatient) this.#flyingPatiently = flight
    else this.#flying = flight
    this.#carryOut(flight).catch(error => {
      // Nobody knows what was written, and the next answer may come from another server.
      for (const key of flight.keys) this.#known.forget(key)
      this.#clock.forget()
      this.isFirst = false
      flight.reject([...flight.open], error)
    })
  }

  /** The first one, with all that need the same rows. */
  #takePatient(): Change[] {
    const [{ keys }] = this.#patient
    const same = (change: Change) => change.keys.length === keys.length && change.keys.every(key => keys.includes(key))
    const taken = this.#patient.filter(same)
    this.#patient = this.#patient.filter(change => !same(change))
    return taken
  }

  readonly #landed = (flight: Flight) => {
    flight.rows.leave()
    if (flight.isPatient) {
      this.#flyingPatiently = undefined
      this.#regroup()
    } else this.#flying = undefined
    // By then, callers that ask again directly after their answer have done so.
    this.#schedule(afterIo)
  }

  /** What need not wait for held rows any longer flies with the others. */
  #regroup(): void {
    const patient = this.#patient
    this.#patient = []
    for (const change of patient) (this.#needsHeld(change) ? this.#patient : this.#waiting).push(change)
    if (this.#patient.length === 0 && this.#flyingPatiently === undefined) this.#held.clear()
  }

  /** While no statement may be sent, changes are rejected when their time is over. */
  #expireWaiting(): void {
    if (this.#expiry !== undefined) return
    const now = performance.now()
    let first = Number.POSITIVE_INFINITY
    for (const { endsAt } of this.#waiting) first = Math.min(first, endsAt)
    for (const { endsAt } of this.#patient) first = Math.min(first, endsAt)
    // Not for each of many that end one after another.
    const inMs = Math.min(LONGEST_TIMER_MS, Math.max(EXPIRES_EVERY_MS, first - now))
    this.#expiry = setTimeout(() => {
      this.#expiry = undefined
      this.#waiting = stillInTime(this.#waiting, SILENT)
      this.#patient = stillInTime(this.#patient, SILENT)
      this.#start()
    }, inMs)
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
        const areThere = await this.#add(flight, joint, at)
        nowMs = areThere
          ? await this.#write(flight, joint, at, unread, 'writeGroups')
          : await this.#setAside(flight, joint)
      }
      if (unread.size > 0 && flight.open.size > 0) nowMs = await this.#read(flight, unread)
    }
  }

  /** The groups of the open changes that share rows. Changes that are too late, or fail, are rejected. */
  #decide(flight: Flight, nowMs: number): Group[] {
    const moment = performance.now()
    for (const change of [...flight.open]) {
      if (change.endsAt < moment) {
        flight.reject([change], new StoreError('the database was asked too late to decide in time'))
      }
    }
    for (;;) {
      const drafts = new Map<string, Draft>()
      const draftOf = (key: string) => getOrMake(drafts, key, () => new Draft(key, flight.rowOf(key, this.#known)))
      const groups: Group[] = []
      const failed = [...flight.open].find(change => {
        const own = change.keys.map(draftOf)
        try {
          change.apply(own, nowMs)
        } catch (error) {
          flight.reject([change], error)
          return true
        }
        let [{ group }] = own
        if (group === undefined) {
          group = { drafts: [], changes: [] }
          groups.push(group)
        }
        for (const draft of own) join(group, draft)
        group.changes.push(change)
        return false
      })
      // What it has changed in the drafts is not written: the others are decided again.
      if (failed === undefined) return groups
    }
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
    groups.forEach(({ drafts }, group) => {
      for (const draft of drafts) {
        if (!draft.isDirty) continue
        const { row, text, until } = draft.written(version, nowMs)
        rows.push({ key: draft.key, prev: draft.base.version, expiresAt: until, state: text, group })
        written.push(row)
      }
    })
    const isGiven = this.#options.clock !== undefined
    const leftMs = shortestOf(groups)
    const from = isGiven ? 0 : nowMs
    const until = isGiven ? NEVER_LATE : Math.floor(nowMs + leftMs + GRACE_MS)
    const waitMs = waitOf(flight, leftMs, rows.length)
    const answer = await this.#ask(flight, timeoutMs =>
      flight.rows[how]({ rows, version, from, until, waitMs }, timeoutMs),
    )
    if (answer === undefined) return this.#setAside(flight, groups)
    const { clock, lost } = answer
    let added = 0
    rows.forEach(({ key, prev }, i) => {
      if (!lost.has(key)) {
        this.#known.wrote(key, written[i])
        this.#held.delete(key)
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

  /**
   * Somebody else holds rows of these groups, or adds them at this moment. What needs such rows waits apart, and delays
   * nothing else.
   */
  async #setAside(flight: Flight, groups: readonly Group[]): Promise<undefined> {
    const drafts = groups.flatMap(({ drafts }) => drafts)
    const keys = new Set(drafts.map(({ key }) => key))
    for (const key of this.#held) if (keys.size < this.#options.maxBatch) keys.add(key)
    const held = await this.#ask(flight, timeoutMs => flight.rows.held([...keys], timeoutMs))
    for (const key of keys) {
      if (held.has(key)) this.#held.add(key)
      else this.#held.delete(key)
    }
    if (held.size === 0 && flight.hasMetHeld) {
      // A row that is being added is not seen: each of them is tried alone.
      const missing = drafts.filter(({ base }) => base.version === NO_VERSION)
      for (const { key } of missing.length > 0 ? missing : drafts) this.#held.add(key)
    }
    flight.hasMetHeld = true
    const apart = [...flight.open].filter(change => this.#needsHeld(change))
    for (const change of apart) this.#patient.push(change)
    flight.leave(apart)
    this.#schedule(nextTick)
    return undefined
  }

  /** Adds the rows of groups that are missing, so that all can be held. False: somebody else holds one of them. */
  async #add(flight: Flight, groups: readonly Group[], nowMs: number): Promise<boolean> {
    const missing: string[] = []
    for (const { drafts } of groups) {
      for (const { key, base } of drafts) if (base.version === NO_VERSION) missing.push(key)
    }
    if (missing.length === 0) return true
    const waitMs = waitOf(flight, shortestOf(groups), missing.length)
    return this.#ask(flight, timeoutMs => flight.rows.add(missing, nowMs, waitMs, timeoutMs))
  }

  async #read(flight: Flight, keys: ReadonlySet<string>): Promise<number> {
    const { clock, rows } = await this.#ask(flight, timeoutMs => flight.rows.read([...keys], timeoutMs))
    for (const key of keys) this.#readRow(flight, key, rows.get(key) ?? NO_ROW)
    return this.#moment(clock)
  }

  #readRow(flight: Flight, key: string, { version, state }: StoredRow): void {
    try {
      flight.wasRead(key, this.#known.read(key, version, state))
    } catch (error) {
      flight.reject(
        [...flight.open].filter(({ keys }) => keys.includes(key)),
        error,
      )
    }
  }

  /** Asks the database, until the last change of the flight is late. An answer that comes later changes nothing. */
  async #ask<T>(flight: Flight, ask: (timeoutMs: number) => Promise<T>): Promise<T> {
    const sentAt = performance.now()
    let endsAt = sentAt
    for (const change of flight.open) endsAt = Math.max(endsAt, change.endsAt)
    const answer = await ask(Math.min(LONGEST_TIMER_MS, endsAt - sentAt + GRACE_MS))
    this.isFirst = false
    const { clock } = (answer ?? {}) as { readonly clock?: number }
    if (clock !== undefined && this.#options.clock === undefined) {
      this.#clock.learn(sentAt, clock)
      this.#options.steps.note(Math.floor(clock), sentAt, performance.now())
    }
    return answer
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

const SILENT = 'two statements of this store wait for the database, and no more are sent'
const HELD = 'somebody else holds the row'

/** Rejects the changes whose time is over. */
function stillInTime(changes: readonly Change[], why: string): Change[] {
  const now = performance.now()
  return changes.filter(change => {
    if (change.endsAt > now) return true
    change.reject(new StoreError(why))
    return false
  })
}

const EXPIRES_EVERY_MS = 10

const NO_ROW: StoredRow = { version: NO_VERSION, state: '' }
