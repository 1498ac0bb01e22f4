import { Alarm } from './alarms.js'
import { TimeoutError } from './errors.js'
import { getOrMake } from './maps.js'
import { type HeldObject, type Hold, notify, type ObservedObject, type Observer, type WaitOutcome } from './observer.js'

/** At most one `level` event per this time for each object. */
const EVERY_MS = 1000
/** A shorter wait does not count: a level is reported only if it lasts this long. */
const STANDS_MS = 20

type Level = 'inUse' | 'waiting' | 'depth' | 'overdueMs' | 'used' | 'debt' | 'rate' | 'intervalMs' | 'reservoir'
type Levels = Partial<Record<Level, number>>

const METERS = new WeakMap<Observer, Map<string, LevelMeter>>()

/**
 * Reports the levels of one object to one observer when they change, or were asked for: at once if the last report is
 * at least a second ago, else as soon as it is.
 */
export class LevelMeter {
  readonly #now: Levels = {}
  readonly #reported: Levels = {}
  #reportedAt = Number.NEGATIVE_INFINITY
  readonly #alarm = new Alarm(() => this.#report(), false)
  #ringsAt = Number.POSITIVE_INFINITY

  private constructor(
    readonly observer: Observer,
    readonly object: ObservedObject,
    readonly name: string,
  ) {}

  /**
   * The meter shared by all objects of one kind and name of one observer, so that their levels are added up. Undefined
   * if it has no `level`.
   */
  static of(observer: Observer, object: ObservedObject, name: string): LevelMeter | undefined {
    if (observer.level === undefined) return undefined
    const meters = getOrMake(METERS, observer, () => new Map())
    const id = `${object}:${name}`
    return getOrMake(meters, id, () => new LevelMeter(observer, object, name))
  }

  add(level: Level, count: number): void {
    this.set({ [level]: (this.#now[level] ?? 0) + count })
  }

  set(levels: Levels): void {
    Object.assign(this.#now, levels)
    const standsMs = levels.waiting === undefined ? 0 : STANDS_MS
    const now = performance.now()
    const dueAt = Math.max(this.#reportedAt + EVERY_MS, now + standsMs)
    if (dueAt <= now) this.#report()
    else if (dueAt < this.#ringsAt) {
      this.#ringsAt = dueAt
      this.#alarm.set(dueAt)
    }
  }

  #report(): void {
    this.#ringsAt = Number.POSITIVE_INFINITY
    this.#alarm.clear()
    const { inUse, waiting, depth, used, reservoir } = this.#now
    const isAsked = depth !== undefined || reservoir !== undefined
    const reported = this.#reported
    // What was asked for is told each time: it is not of this process, and grows old.
    const isTold = reported.inUse === inUse && reported.waiting === waiting && reported.used === used
    if (!isAsked && isTold) return
    // The first reported level is never 0 waiters.
    if (this.#reportedAt < 0 && !inUse && !waiting && !used && !isAsked) return
    this.#reportedAt = performance.now()
    Object.assign(reported, this.#now)
    notify(this.observer, 'level', { object: this.object, name: this.name, ...this.#now })
  }
}

/** Ends a wait; without an outcome if it failed. A second call does nothing. */
export type WaitEnd = (outcome?: WaitOutcome) => void

type Waitable = Exclude<ObservedObject, 'queue'>

/**
 * Reports to an observer how many callers wait for one object, and for how long. Without an observer there is no
 * `WaitWatch`.
 */
export class WaitWatch<Object extends Waitable = Waitable> {
  protected readonly meter: LevelMeter | undefined

  constructor(
    readonly observer: Observer,
    readonly object: Object,
    readonly name: string,
  ) {
    this.meter = LevelMeter.of(observer, object, name)
  }

  /** A caller begins to wait. Call the returned function when the wait ends. */
  begin(): WaitEnd {
    const startedAt = performance.now()
    this.meter?.add('waiting', 1)
    let over = false
    return outcome => {
      if (over) return
      over = true
      this.meter?.add('waiting', -1)
      if (outcome === undefined || this.observer.waited === undefined) return
      const waitMs = performance.now() - startedAt
      notify(this.observer, 'waited', { object: this.object, name: this.name, waitMs, outcome })
    }
  }
}

/**
 * Returns the promise of `wait`, and reports its end to the watch, if there is one: when `granted` is called, or when
 * the promise settles. `signal`: may abort it.
 */
export function watched<T>(
  watch: WaitWatch | undefined,
  signal: AbortSignal | undefined,
  wait: (granted: () => void) => Promise<T>,
): Promise<T> {
  return watch === undefined ? wait(() => {}) : reportedWait(watch, signal, wait)
}

async function reportedWait<T>(
  watch: WaitWatch,
  signal: AbortSignal | undefined,
  wait: (granted: () => void) => Promise<T>,
): Promise<T> {
  const end = watch.begin()
  try {
    const given = await wait(() => end('granted'))
    end('granted')
    return given
  } catch (error) {
    end(outcomeOf(error, signal))
    throw error
  }
}

function outcomeOf(error: unknown, signal: AbortSignal | undefined): WaitOutcome | undefined {
  if (signal?.aborted && error === signal.reason) return 'aborted'
  return error instanceof TimeoutError ? 'timeout' : undefined
}

/** The part of a lease that tells since when it is held: the token is the moment of its grant in µs. */
interface HeldGrant {
  readonly id: string
  readonly token: bigint
}

/**
 * Observer with `holding` → object and name → current holds, in the order of their grants: shared by all objects of one
 * kind and name.
 */
const HOLDS = new WeakMap<Observer, Map<string, Set<Hold>>>()

/** As `WaitWatch`, for permits that are held and given back. */
export class HoldWatch extends WaitWatch<HeldObject> {
  /** Undefined until the first hold, and without an observer that asks for them. */
  #holds: Set<Hold> | undefined

  /**
   * This many permits are held from now on: of a lease, if it is given. Call the returned function when they are given
   * back or lost.
   */
  hold(permits: number, lease?: HeldGrant): (lost: boolean) => void {
    const heldAt = performance.now()
    this.meter?.add('inUse', permits)
    const hold = this.observer.holding && this.#add(permits, lease)
    return lost => {
      this.meter?.add('inUse', -permits)
      if (hold !== undefined) this.#holds?.delete(hold)
      if (this.observer.held === undefined) return
      const heldMs = performance.now() - heldAt
      notify(this.observer, 'held', { object: this.object, name: this.name, heldMs, lost })
    }
  }

  #add(permits: number, lease: HeldGrant | undefined): Hold {
    const hold =
      lease === undefined
        ? { permits, since: Date.now() }
        : { permits, lease: lease.id, since: Math.floor(Number(lease.token) / 1000) }
    this.#holds ??= this.#newHolds()
    this.#holds.add(hold)
    return hold
  }

  #newHolds(): Set<Hold> {
    const { observer, object, name } = this
    const holds = getOrMake(HOLDS, observer, () => new Map<string, Set<Hold>>())
    return getOrMake(holds, `${object}:${name}`, () => {
      const made = new Set<Hold>()
      notify(observer, 'holding', { object, name, holds: made })
      return made
    })
  }
}
