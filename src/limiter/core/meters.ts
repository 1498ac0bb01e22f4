import { Alarm } from './alarms.js'
import { TimeoutError } from './errors.js'
import { getOrMake } from './maps.js'
import {
  CHANNELS,
  type HeldObject,
  type Hold,
  isHeard,
  notify,
  type ObservedObject,
  type Observer,
  tell,
  type WaitOutcome,
} from './observer.js'

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
    else this.#alarm.ringBy(dueAt)
  }

  #report(): void {
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
    tell(this.observer, 'level', { object: this.object, name: this.name, ...this.#now })
  }
}

const NO_METERS: readonly LevelMeter[] = []

/** The meters of one object: its observer's, and that of the channel while somebody subscribes. */
export class LevelMeters {
  readonly #own: LevelMeter | undefined
  readonly #onlyOwn: readonly LevelMeter[]

  constructor(
    observer: Observer | undefined,
    readonly object: ObservedObject,
    readonly name: string,
  ) {
    this.#own = observer && LevelMeter.of(observer, object, name)
    this.#onlyOwn = this.#own === undefined ? NO_METERS : [this.#own]
  }

  /** Those that somebody reads now. */
  get heard(): readonly LevelMeter[] {
    const published = LevelMeter.of(CHANNELS, this.object, this.name)
    return published === undefined ? this.#onlyOwn : [...this.#onlyOwn, published]
  }
}

/** Ends a wait; without an outcome if it failed. A second call does nothing. */
export type WaitEnd = (outcome?: WaitOutcome) => void

type Waitable = Exclude<ObservedObject, 'queue'>

/**
 * Reports how many callers wait for one object, and for how long: to its observer, and to the channels. What began while
 * nobody listened is not reported.
 */
export class WaitWatch<Object extends Waitable = Waitable> {
  protected readonly meters: LevelMeters

  constructor(
    readonly observer: Observer | undefined,
    readonly object: Object,
    readonly name: string,
  ) {
    this.meters = new LevelMeters(observer, object, name)
  }

  /** A caller begins to wait. Call the returned function when the wait ends; undefined while nobody listens. */
  begin(): WaitEnd | undefined {
    const meters = this.meters.heard
    if (meters.length === 0 && !isHeard(this.observer, 'waited')) return undefined
    const startedAt = performance.now()
    for (const meter of meters) meter.add('waiting', 1)
    let over = false
    return outcome => {
      if (over) return
      over = true
      for (const meter of meters) meter.add('waiting', -1)
      if (outcome === undefined) return
      const waitMs = performance.now() - startedAt
      notify(this.observer, 'waited', { object: this.object, name: this.name, waitMs, outcome })
    }
  }
}

/**
 * Returns the promise of `wait`, and reports its end to the watch: when `granted` is called, or when the promise
 * settles. `signal`: may abort it.
 */
export function watched<T>(
  watch: WaitWatch,
  signal: AbortSignal | undefined,
  wait: (granted: () => void) => Promise<T>,
): Promise<T> {
  const end = watch.begin()
  return end === undefined ? wait(() => {}) : reportedWait(end, signal, wait)
}

async function reportedWait<T>(
  end: WaitEnd,
  signal: AbortSignal | undefined,
  wait: (granted: () => void) => Promise<T>,
): Promise<T> {
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
  /**
   * This many permits are held from now on: of a lease, if it is given. Call the returned function when they are given
   * back or lost; undefined while nobody listens.
   */
  hold(permits: number, lease?: HeldGrant): ((lost: boolean) => void) | undefined {
    const { observer, object, name } = this
    const meters = this.meters.heard
    if (meters.length === 0 && !isHeard(observer, 'held') && !isHeard(observer, 'holding')) return undefined
    const lists = [observer, CHANNELS].flatMap(one => (one?.holding === undefined ? [] : [this.#holdsOf(one)]))
    const heldAt = performance.now()
    for (const meter of meters) meter.add('inUse', permits)
    const hold = holdOf(permits, lease)
    for (const holds of lists) holds.add(hold)
    return lost => {
      for (const meter of meters) meter.add('inUse', -permits)
      for (const holds of lists) holds.delete(hold)
      const heldMs = performance.now() - heldAt
      notify(observer, 'held', { object, name, heldMs, lost })
    }
  }

  #holdsOf(observer: Observer): Set<Hold> {
    const { object, name } = this
    const holds = getOrMake(HOLDS, observer, () => new Map<string, Set<Hold>>())
    return getOrMake(holds, `${object}:${name}`, () => {
      const made = new Set<Hold>()
      tell(observer, 'holding', { object, name, holds: made })
      return made
    })
  }
}

function holdOf(permits: number, lease: HeldGrant | undefined): Hold {
  if (lease === undefined) return { permits, since: Date.now() }
  return { permits, lease: lease.id, since: Math.floor(Number(lease.token) / 1000) }
}
