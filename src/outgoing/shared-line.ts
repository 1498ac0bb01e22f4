import { Alarm } from '../limiter/core/alarms.js'
import { keySegment } from '../limiter/core/key-segment.js'
import { BoundedMap } from '../limiter/core/maps.js'
import type { Guarded } from '../limiter/guarded.js'
import type { ClientPort, RedisClient } from '../redis/client.js'
import { portOf } from '../redis/clients.js'
import { keyRoot } from '../redis/keys.js'
import { budgetAsk } from '../redis/scripts.js'
import { TimelyScripts } from '../redis/timely-scripts.js'
import { Mailbox } from '../waiting/line/mailbox.js'
import { Account } from './account.js'
import { BudgetAsk, foreignOf, type Resource } from './budget-ask.js'
import { type Call, CallLine, type Departure, type Group, type LongestWait, type Places, type Waiter } from './line.js'
import { LOOK_EVERY_MS } from './pause.js'
import { type DepartureUser, type SharedCharge, SharedDeparture } from './shared-departure.js'

/** A place of a dead process is free after this time. */
const LEASE_MS = 30_000
/** How many changes an ask carries: so that the server works for about 1 ms. */
const MOST_CHANGES = 100
/**
 * How many budgets and places an ask names so that the calls of other processes which wait for them keep their turns.
 */
const MOST_NAMED = 24
/** How long to wait after a failure before the server is asked again. */
const REST_MS = 200

/** Asks Redis for the calls of this process to one partner and those that are narrower: one script at a time. */
class Asker implements DepartureUser {
  readonly #line: SharedLine
  readonly #root: string
  readonly #keys: readonly [string, string, string]
  readonly #mailbox: Mailbox
  readonly #alarm = new Alarm(() => this.schedule())
  readonly #renewal = new Alarm(() => this.#renew(), false)
  readonly #seen = new BoundedMap<string, Resource>(MOST_NAMED)
  readonly #changed = new Set<SharedCharge>()
  /** Holders whose places end, or are to last: with the lease in ms. */
  readonly #leases = new Map<string, { readonly places: readonly Places[]; leaseMs: number }>()
  readonly #held = new Map<string, readonly Places[]>()
  #number = 0
  #isScheduled = false
  #inFlight = false
  #again = false
  #listens = false
  /**
   * The last ask has not named budgets for which calls of other processes wait: the next one does, so that they are
   * told what is free.
   */
  #mustName = false
  #restsUntil = 0
  /** When the alarm rings. */
  #comesAt = Number.POSITIVE_INFINITY

  constructor(line: SharedLine, root: string) {
    this.#line = line
    this.#root = root
    const base = keyRoot('politeFetch', 'line', 'outgoing', line.prefix)
    this.#mailbox = new Mailbox(line.client, line.prefix, {
      hear: text => this.#comeIn(Number(text) || 0),
      live: () => this.#comeIn(0),
    })
    const own = `${base}:${keySegment(root)}`
    this.#keys = [own, `${own}:asks`, `${own}:sent:${this.#mailbox.address}`]
  }

  holderOf(order: number): string {
    return `${this.#mailbox.address}.${order}`
  }

  change(charge: SharedCharge): void {
    this.#changed.add(charge)
    this.schedule()
  }

  hold(holder: string, places: readonly Places[]): void {
    this.#held.set(holder, places)
    if (this.#held.size === 1) this.#renewal.set(performance.now() + LEASE_MS / 3)
  }

  leave(holder: string, places: readonly Places[]): void {
    this.#held.delete(holder)
    this.#leases.set(holder, { places, leaseMs: 0 })
    this.schedule()
  }

  /** Calls may have begun or ended to wait. */
  look(): void {
    if (this.#listens || this.#line.hasWaiters(this.#root)) this.schedule()
  }

  /** Asks at the end of this turn of the event loop. */
  schedule(): void {
    if (this.#inFlight) this.#again = true
    else if (performance.now() < this.#restsUntil) this.#comeIn(this.#restsUntil - performance.now())
    else if (!this.#isScheduled) {
      this.#isScheduled = true
      setImmediate(() => {
        this.#isScheduled = false
        this.#ask()
      })
    }
  }

  #comeIn(ms: number): void {
    if (ms <= 0) {
      this.schedule()
      return
    }
    const at = performance.now() + ms
    if (at >= this.#comesAt) return
    this.#comesAt = at
    this.#alarm.set(at)
  }

  #renew(): void {
    for (const [holder, places] of this.#held) this.#leases.set(holder, { places, leaseMs: LEASE_MS })
    if (this.#held.size > 0) this.#renewal.set(performance.now() + LEASE_MS / 3)
    if (this.#leases.size > 0) this.schedule()
  }

  async #ask(): Promise<void> {
    if (this.#inFlight) return
    const { guarded, port } = this.#line
    this.#alarm.clear()
    this.#comesAt = Number.POSITIVE_INFINITY
    const kinds = this.#kinds()
    const isIdle = kinds.length === 0 && this.#changed.size === 0 && this.#leases.size === 0
    if (isIdle && !this.#listens && !this.#mustName) return
    if (!guarded.mayAsk()) {
      this.#rest()
      return
    }
    this.#inFlight = true
    this.#again = false
    const leaves = [...this.#leases].filter(([, { leaseMs }]) => leaseMs === 0)
    const ask = this.#next(kinds)
    const { address, channel } = this.#mailbox
    const words = ['', address, String(++this.#number), channel, ...ask.words, String(LEASE_MS), String(MOST_NAMED)]
    const call = TimelyScripts.of(port).run({
      script: budgetAsk,
      does: 'ask for the calls to a partner',
      keys: [...this.#keys, ...ask.keys],
      args: until => [...words, until],
      endsAt: ask.at + guarded.deadlineMs,
      server: port.serverOf(port.slotOf(this.#keys[0])),
      byServerClock: true,
    })
    try {
      const reply = await guarded.hold(call)
      this.#inFlight = false
      this.#read(String(reply), ask)
    } catch {
      this.#inFlight = false
      // What was given back or answered may be known or not.
      for (const charge of ask.answered) charge.end = undefined
      // That a place is free may be told twice.
      for (const [holder, lease] of leaves) this.#leases.set(holder, lease)
      this.#rest()
    }
  }

  /** The calls that wait for budgets and places, and not for the end of a pause. */
  #kinds(): Waiter[][] {
    return this.#line.kindsOf(this.#root).filter(([first]) => {
      const pauseMs = first.call.pauseMs()
      if (pauseMs > 0) this.#comeIn(Math.min(pauseMs, LOOK_EVERY_MS))
      return pauseMs === 0
    })
  }

  /** Redis does not answer: calls leave by what this process knows, until it does. */
  #rest(): void {
    this.#restsUntil = performance.now() + REST_MS
    this.#line.goAlone(this.#root)
    if (this.#line.kindsOf(this.#root).length > 0 || this.#held.size > 0) this.#comeIn(REST_MS)
    // Places that are free are told when Redis is here again, which keeps no process alive.
    else if (this.#leases.size > 0) this.#renewal.set(this.#restsUntil)
    this.#listen(false)
  }

  #next(kinds: readonly (readonly Waiter[])[]): BudgetAsk {
    const ask = new BudgetAsk(this.#line.prefix)
    for (const kind of kinds) ask.addCalls(kind)
    const changes = [...this.#changed].slice(0, MOST_CHANGES)
    for (const charge of changes) {
      this.#changed.delete(charge)
      ask.addChange(charge)
    }
    if (this.#changed.size > 0) ask.hasMore = true
    for (const [holder, { places, leaseMs }] of this.#leases) ask.addLease(holder, places, leaseMs)
    this.#leases.clear()
    for (const [key, one] of ask.resources) {
      // What was used last is forgotten last.
      this.#seen.delete(key)
      this.#seen.set(key, one)
    }
    for (const one of [...this.#seen.values()].reverse()) if (ask.resources.size < MOST_NAMED) ask.numberOf(one)
    return ask
  }

  #read(reply: string, ask: BudgetAsk): void {
    const { at, resources: named, questions, answered, hasMore } = ask
    const [text, ...unnamed] = reply.split('\n')
    const [head, granted = '', waits = '', used = ''] = text.split(',')
    const [code, serverNow, nextMs] = head.split(' ').map(Number)
    if (code !== 1) {
      this.schedule()
      return
    }
    const now = performance.now()
    for (const charge of answered) {
      if (charge.end !== undefined) charge.end = Math.min(charge.end, charge.account.endAfter(serverNow))
    }
    const resources = [...named.values()]
    const usedUnits = numbersOf(used)
    for (const [index, one] of resources.entries()) if (one instanceof Account) one.heard(usedUnits[index], now)
    // Calls of other processes wait for these: with these named, they keep their turns.
    for (const one of unnamed.map(foreignOf)) this.#seen.set(one.key, one)
    this.#mustName = unnamed.length > 0 && named.size + unnamed.length <= MOST_NAMED
    const left = numbersOf(granted)
    for (const order of left) this.#letLeave(ask.leaves(order), serverNow, now - at)
    const told = numbersOf(waits)
    for (const [index, waiter] of this.#mustName ? [] : questions.entries()) {
      const cause = resources[told[2 * index + 1] - 1]
      const account = cause instanceof Account ? cause : undefined
      if (!waiter.wait.ended) this.#line.judgeShared(waiter, { account, waitMs: told[2 * index] })
    }
    const stillWait = this.#kinds().length > 0
    this.#listen(stillWait)
    if (
      this.#again ||
      this.#mustName ||
      (hasMore && (left.length > 0 || questions.length > 0 || this.#changed.size > 0))
    )
      this.schedule()
    else if (stillWait) this.#comeIn(Math.max(1, at + nextMs - now))
  }

  #letLeave(waiter: Waiter, serverNow: number, ageMs: number): void {
    const departure = () => this.#line.departureOver(waiter.call, performance.now(), serverNow)
    const shortest = Math.min(...waiter.call.charges.map(({ account }) => account.budget.intervalMs), 2500)
    const isLate = ageMs > Math.max(50, shortest / 10) && !waiter.wasLate
    if (isLate && !waiter.wait.ended) {
      // The partner would get the call later than it is counted: the call waits again, in its place.
      waiter.wasLate = true
      departure().unused()
    } else if (!this.#line.leaves(waiter, departure)) departure().unused()
  }

  #listen(listens: boolean): void {
    if (listens === this.#listens) return
    this.#listens = listens
    if (listens) this.#mailbox.hold()
    else this.#mailbox.release()
  }
}

/**
 * The calls of this process that wait, in one line with those of all processes that share a Redis: first come, first
 * served. While Redis does not answer, calls leave by what this process has counted, which includes all that it took
 * over Redis.
 */
export class SharedLine extends CallLine {
  readonly port: ClientPort
  /** One for each of the user's partners with limits, at most: the widest of a call's. */
  readonly #askers = new Map<string, Asker>()

  constructor(
    readonly client: RedisClient,
    readonly guarded: Guarded,
    readonly prefix = 'spillway',
  ) {
    super()
    this.port = portOf(client, 'politeFetch')
  }

  protected override look(group: Group): void {
    for (const { first } of group.kinds.values()) if (first !== undefined) this.#askerOf(first.call)
    for (const name of group.partners) this.#askers.get(name)?.look()
    if (this.guarded.failing) super.look(group)
  }

  /** Redis has failed. */
  goAlone(root: string): void {
    const group = this.groups.get(root)
    if (group === undefined) return
    this.look(group)
    const now = performance.now()
    for (const kind of [...group.kinds.values()]) {
      for (const waiter of [...kind]) if (!waiter.isJudged) this.judge(waiter, this.longestWait(waiter, now))
    }
  }

  hasWaiters(root: string): boolean {
    for (const { first } of this.groups.get(root)?.kinds.values() ?? []) {
      if (first?.call.partners[0] === root) return true
    }
    return false
  }

  /** The calls that wait and whose widest partner is this one: for each kind in the order in which they leave. */
  kindsOf(root: string): Waiter[][] {
    const kinds: Waiter[][] = []
    for (const kind of this.groups.get(root)?.kinds.values() ?? []) {
      if (kind.first?.call.partners[0] === root) kinds.push([...kind].filter(({ wait }) => !wait.ended))
    }
    return kinds.filter(({ length }) => length > 0)
  }

  judgeShared(waiter: Waiter, longest: LongestWait): void {
    super.judge(waiter, longest)
  }

  leaves(waiter: Waiter, departure: () => Departure): boolean {
    return this.depart(waiter, departure)
  }

  /** Redis tells how long the call would wait. */
  protected override judge(waiter: Waiter, longest: LongestWait): void {
    if (this.guarded.failing) super.judge(waiter, longest)
  }

  protected override departureOf(call: Call, now: number): Departure {
    return this.departureOver(call, now, undefined)
  }

  /** `grantedAt`: when Redis has let the call leave, by its clock; undefined: this process has. */
  departureOver(call: Call, now: number, grantedAt: number | undefined): SharedDeparture {
    return new SharedDeparture(call, now, () => this.look(this.groupOf(call)), this.#askerOf(call), grantedAt)
  }

  #askerOf({ partners: [root] }: Call): Asker {
    let asker = this.#askers.get(root)
    if (asker === undefined) {
      asker = new Asker(this, root)
      this.#askers.set(root, asker)
    }
    return asker
  }
}

function numbersOf(list: string): number[] {
  return list === '' ? [] : list.split(' ').map(Number)
}
