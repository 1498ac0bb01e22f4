import { Alarm } from '../limiter/core/alarms.js'
import { TimeoutError } from '../limiter/core/errors.js'
import { getOrMake } from '../limiter/core/maps.js'
import { type Patience, Wait } from '../limiter/core/wait.js'
import { type Account, type Places, tooLong } from './account.js'
import type { Call } from './call.js'
import { Departure, type Keeper } from './departure.js'
import { LOOK_EVERY_MS } from './pause.js'

/** The lowest and the highest priority, by their numbers. */
export const MOST_PRIORITY = 8
/** Of a call that later ones of a higher priority have passed for as long as it may wait: it goes next. */
const OVERDUE = 2 * MOST_PRIORITY + 1

/** A call that waits. */
export interface Waiter {
  readonly call: Call
  /** By `performance.now()`. */
  readonly joinedAt: number
  readonly timeoutMs: number
  /** The calls of the highest urgency go first, among them the first that came. */
  urgency: number
  readonly wait: Wait<Departure>
  /** Rings at the end of its timeout. */
  readonly alarm: Alarm
  /** Over Redis: it has been told how long it would wait. */
  isJudged: boolean
}

/** Calls of one kind and urgency that wait, in the order in which they came. */
class Queue {
  /** In the order in which they came. */
  readonly #came = new Set<Waiter>()
  /** Those that have waited before and were sent too late: they have their places, which were behind nobody. */
  readonly #returned: Waiter[] = []
  #newest = -1

  add(waiter: Waiter): void {
    const { order } = waiter.call
    if (order > this.#newest) {
      this.#newest = order
      this.#came.add(waiter)
      return
    }
    let at = this.#returned.length
    while (at > 0 && this.#returned[at - 1].call.order > order) at--
    this.#returned.splice(at, 0, waiter)
  }

  delete(waiter: Waiter): boolean {
    if (this.#came.delete(waiter)) return true
    const at = this.#returned.indexOf(waiter)
    if (at >= 0) this.#returned.splice(at, 1)
    return at >= 0
  }

  *[Symbol.iterator](): Iterator<Waiter> {
    let next = 0
    for (const waiter of this.#came) {
      for (; this.#returned[next]?.call.order < waiter.call.order; next++) yield this.#returned[next]
      yield waiter
    }
    yield* this.#returned.slice(next)
  }
}

/** The calls of one kind that wait, by their urgency, in the order in which they came. */
export class Kind {
  readonly #queues: Queue[] = []
  /** Over Redis: those that have not been told how long they would wait, and some that have. */
  readonly unjudged = new Set<Waiter>()
  size = 0

  add(waiter: Waiter): void {
    this.#queues[waiter.urgency] ??= new Queue()
    this.#queues[waiter.urgency].add(waiter)
    if (!waiter.isJudged) this.unjudged.add(waiter)
    this.size++
    for (const { account, units } of waiter.call.charges) account.wait(waiter.urgency, units)
  }

  /** False: it does not wait here any more. */
  delete(waiter: Waiter): boolean {
    if (!this.#queues[waiter.urgency]?.delete(waiter)) return false
    this.unjudged.delete(waiter)
    this.size--
    for (const { account, units } of waiter.call.charges) account.wait(waiter.urgency, -units)
    return true
  }

  /** In the order in which they leave. */
  *[Symbol.iterator](): Iterator<Waiter> {
    for (let urgency = this.#queues.length - 1; urgency >= 0; urgency--) yield* this.#queues[urgency] ?? []
  }

  get first(): Waiter | undefined {
    for (const waiter of this) return waiter
    return undefined
  }
}

/**
 * Partners of which some call takes from two at once, and those that such calls connect. A call can only wait for calls
 * of its own group, so no other group is looked at for it.
 */
export class Group {
  readonly partners = new Set<string>()
  readonly kinds = new Map<string, Kind>()
  /** By urgency: the latest of the calls that have left. */
  readonly #latest: number[] = []
  readonly alarm: Alarm

  constructor(look: (group: Group) => void) {
    this.alarm = new Alarm(() => look(this))
  }

  /** A call of this urgency and order has left. */
  left(urgency: number, order: number): void {
    this.#latest[urgency] = Math.max(this.#latest[urgency] ?? -1, order)
  }

  /** Whether a call of a higher priority that came later has left. */
  hasPassed({ urgency, call }: Waiter): boolean {
    return this.#latest.some((latest, passing) => passing > urgency && latest > call.order)
  }

  /** Takes over the partners and calls of another group, which is not used any more. */
  join(other: Group): void {
    for (const name of other.partners) this.partners.add(name)
    for (const [name, kind] of other.kinds) this.kinds.set(name, kind)
    for (const [urgency, order] of other.#latest.entries()) this.left(urgency, order ?? -1)
    other.alarm.clear()
  }
}

/**
 * The calls of this process that wait to leave. A call leaves if all of its budgets and places have room, and no call
 * that goes before it waits for one of them: calls pass those that wait for something else.
 */
export class CallLine {
  /** By the names of their partners. */
  protected readonly groups = new Map<string, Group>()
  #orders = 0

  /** The place of a call that has just come. */
  nextOrder(): number {
    return this.#orders++
  }

  /**
   * Waits until the call may leave. Rejects with `TimeoutError` at once if that would be after the timeout, and with
   * the signal's reason.
   */
  async take(call: Call, { timeoutMs, signal }: Patience): Promise<Departure> {
    const now = performance.now()
    if (call.partners.length === 0) return new Departure(call, now, this.keeperOf(call))
    const urgency = call.priority + MOST_PRIORITY
    for (const { account } of call.charges) account.update(now)
    const longest = longestWait(call, now, account => account.waiting(urgency))
    const alarm = new Alarm(() => this.#timedOut(waiter))
    // Its timeout may end later than it was told, so it has an alarm of its own.
    const endless = { timeoutMs: Number.POSITIVE_INFINITY, signal }
    const wait = new Wait<Departure>(
      endless,
      () => undefined,
      () => queueMicrotask(() => this.#leave(waiter)),
    )
    const waiter: Waiter = {
      call,
      urgency,
      wait,
      alarm,
      joinedAt: now,
      timeoutMs,
      isJudged: false,
    }
    const group = this.groupOf(call)
    getOrMake(group.kinds, call.kind, () => new Kind()).add(waiter)
    this.look(group)
    if (!wait.ended) {
      alarm.set(timeoutMs === 0 ? Number.POSITIVE_INFINITY : now + timeoutMs)
      this.judge(waiter, longest)
    }
    return wait.promise
  }

  close(): void {
    for (const { alarm } of this.groups.values()) alarm.clear()
  }

  /** The group of a call, whose partners are in one from now on. */
  protected groupOf({ partners: [widest, ...others] }: Call): Group {
    const group = getOrMake(this.groups, widest, () => this.#newGroup(widest))
    for (const name of others) {
      const other = getOrMake(this.groups, name, () => this.#newGroup(name))
      if (other === group) continue
      group.join(other)
      for (const joined of other.partners) this.groups.set(joined, group)
    }
    return group
  }

  #newGroup(partner: string): Group {
    const group = new Group(group => this.look(group))
    group.partners.add(partner)
    return group
  }

  /** The call has begun to wait, and would wait so long: refuses it if that is longer than its timeout. */
  protected judge(waiter: Waiter, longest: LongestWait): void {
    waiter.isJudged = true
    const leftMs = waiter.joinedAt + waiter.timeoutMs - performance.now()
    if (longest.waitMs > leftMs || waiter.timeoutMs === 0) this.#reject(waiter, longest)
  }

  /** How long the call would wait by what this process knows. */
  protected longestWait({ call, urgency }: Waiter, now: number): LongestWait {
    return longestWait(call, now, account => account.waiting(urgency + 1))
  }

  /** The call may leave. False: it does not wait any more. */
  protected depart(waiter: Waiter, departure: () => Departure): boolean {
    const waits = !waiter.wait.ended
    this.#remove(waiter)
    if (!waits) return false
    this.groupOf(waiter.call).left(waiter.urgency, waiter.call.order)
    waiter.wait.resolve(departure())
    return true
  }

  /** Lets calls leave that fit, and sets the alarm for the next ones. */
  protected look({ kinds, alarm }: Group): void {
    const now = performance.now()
    const open = new Set(kinds.values())
    const awaited = new Set<Account | Places>()
    let nextMs = Number.POSITIVE_INFINITY
    for (let waiter = firstOf(open); waiter !== undefined; waiter = firstOf(open)) {
      if (waiter.wait.ended) {
        this.#remove(waiter)
        continue
      }
      const { charges, places, kind } = waiter.call
      const pauseMs = waiter.call.pauseMs()
      if (pauseMs > 0) {
        open.delete(kinds.get(kind) as Kind)
        nextMs = Math.min(nextMs, pauseMs, LOOK_EVERY_MS)
        continue
      }
      for (const { account } of charges) account.update(now)
      const lacking: (Account | Places)[] = places.filter(one => !one.fits())
      for (const { account, units } of charges) {
        if (account.fits(units)) continue
        lacking.push(account)
        // As soon as this budget has room, others may pass this call if it still waits for another one.
        nextMs = Math.min(nextMs, account.waitMs(now, 0, units))
      }
      const resources = [...charges.filter(({ units }) => units > 0).map(({ account }) => account), ...places]
      if (lacking.length === 0 && !resources.some(one => awaited.has(one))) {
        const { call } = waiter
        this.depart(waiter, () => this.departureOf(call, now))
        continue
      }
      open.delete(kinds.get(kind) as Kind)
      for (const one of lacking) awaited.add(one)
    }
    alarm.set(now + nextMs)
  }

  /** The call leaves by what this process knows. */
  protected departureOf(call: Call, now: number): Departure {
    return new Departure(call, now, this.keeperOf(call))
  }

  protected keeperOf(call: Call): Keeper {
    return { ledgersOf: one => [one.spent], changed: () => {}, look: () => this.look(this.groupOf(call)) }
  }

  #timedOut(waiter: Waiter): void {
    const group = this.groupOf(waiter.call)
    if (!group.hasPassed(waiter)) {
      const now = performance.now()
      this.#reject(
        waiter,
        longestWait(waiter.call, now, () => 0),
      )
      return
    }
    const kind = group.kinds.get(waiter.call.kind)
    if (!kind?.delete(waiter)) return
    waiter.urgency = OVERDUE
    kind.add(waiter)
    this.look(group)
  }

  #reject(waiter: Waiter, { account, waitMs }: LongestWait): void {
    const [place] = waiter.call.places
    waiter.wait.reject(
      account === undefined || waitMs === 0
        ? new TimeoutError(`politeFetch: ${place?.partner ?? account?.partner}: no place was free within maxWait`)
        : tooLong(account.subject, waitMs),
    )
    this.#leave(waiter)
  }

  #leave(waiter: Waiter): void {
    if (this.#remove(waiter)) this.look(this.groupOf(waiter.call))
  }

  #remove(waiter: Waiter): boolean {
    waiter.alarm.clear()
    const { kinds } = this.groupOf(waiter.call)
    const kind = kinds.get(waiter.call.kind)
    if (!kind?.delete(waiter)) return false
    if (kind.size === 0) kinds.delete(waiter.call.kind)
    return true
  }
}

/** The budget that a call waits for the longest. */
export interface LongestWait {
  readonly account: Account | undefined
  readonly waitMs: number
}

function longestWait({ charges }: Call, now: number, ahead: (account: Account) => number): LongestWait {
  let longest: LongestWait = { account: undefined, waitMs: 0 }
  for (const { account, units } of charges) {
    const waitMs = account.waitMs(now, ahead(account), units)
    if (longest.account === undefined || waitMs > longest.waitMs) longest = { account, waitMs }
  }
  return longest
}

/** The waiter that goes first. */
function firstOf(kinds: Iterable<Kind>): Waiter | undefined {
  let first: Waiter | undefined
  for (const { first: waiter } of kinds) {
    if (waiter === undefined) continue
    const isFirst =
      first === undefined ||
      waiter.urgency > first.urgency ||
      (waiter.urgency === first.urgency && waiter.call.order < first.call.order)
    if (isFirst) first = waiter
  }
  return first
}
