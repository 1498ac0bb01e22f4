import { getOrMake } from '../core/get-or-make.js'
import { notify, type ObservedObject, type Observer } from '../core/observer.js'
import { Alarm } from './alarm.js'

/** At most one `level` event per this time for each object. */
const EVERY_MS = 1000
/** A shorter wait does not count: a level is reported only if it lasts this long. */
const STANDS_MS = 20

type Level = 'inUse' | 'waiting' | 'depth' | 'overdueMs'
type Levels = Partial<Record<Level, number>>

const METERS = new WeakMap<Observer, Map<string, LevelMeter>>()

/** Reports the levels of one object to one observer when they change, or were asked for: at once if the last report is at least a second ago, else as soon as it is. */
export class LevelMeter {
  readonly #now: Levels = {}
  readonly #reported: Levels = {}
  #toldAt = Number.NEGATIVE_INFINITY
  readonly #alarm = new Alarm(() => this.#report(), false)
  #ringsAt = Number.POSITIVE_INFINITY

  private constructor(
    readonly observer: Observer,
    readonly object: ObservedObject,
    readonly name: string,
  ) {}

  /** The meter shared by all objects of one kind and name of one observer, so that their levels are added up. Undefined if it has no `level`. */
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
    const dueAt = Math.max(this.#toldAt + EVERY_MS, now + standsMs)
    if (dueAt <= now) this.#report()
    else if (dueAt < this.#ringsAt) {
      this.#ringsAt = dueAt
      this.#alarm.set(dueAt)
    }
  }

  #report(): void {
    this.#ringsAt = Number.POSITIVE_INFINITY
    this.#alarm.clear()
    const { inUse, waiting, depth } = this.#now
    const reported = this.#reported
    // What was asked for is told each time: it is not of this process, and grows old.
    if (depth === undefined && reported.inUse === inUse && reported.waiting === waiting) return
    // The first reported level is never 0 waiters.
    if (this.#toldAt < 0 && !inUse && !waiting && depth === undefined) return
    this.#toldAt = performance.now()
    Object.assign(reported, this.#now)
    notify(this.observer, 'level', { object: this.object, name: this.name, ...this.#now })
  }
}
